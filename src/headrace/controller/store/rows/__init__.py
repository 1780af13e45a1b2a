"""The encodings of rows. Pure and versioned; see docs/formats/controller-rows.md."""

"""The connections of the wire protocol of a segment store. See README.md here."""

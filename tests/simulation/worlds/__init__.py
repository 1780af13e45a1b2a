"""Parts of the product with simulated surroundings, for scenarios and tests of these parts."""

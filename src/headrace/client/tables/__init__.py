"""Key-value tables: keys of fixed lengths with their values and versions, shared with the Java client."""

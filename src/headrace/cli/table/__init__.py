"""``headrace table``: key-value tables and their entries."""

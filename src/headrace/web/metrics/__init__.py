"""What a process counts, for systems that watch it: rows of a table, and the page they are read from."""

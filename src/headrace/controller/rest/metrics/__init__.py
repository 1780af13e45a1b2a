"""What a server counts, for systems that watch it: a table of metrics, and the pages they are read from."""

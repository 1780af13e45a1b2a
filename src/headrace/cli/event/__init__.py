"""``headrace event``: events from standard input to a stream, and from a stream to standard output."""

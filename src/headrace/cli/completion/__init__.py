"""``headrace completion``: what a shell loads, and the names of a server that it offers."""

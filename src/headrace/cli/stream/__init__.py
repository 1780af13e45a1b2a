"""``headrace stream``: verbs of streams, and questions about them."""

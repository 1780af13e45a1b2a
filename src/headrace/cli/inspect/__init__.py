"""``headrace inspect``: views of logs, containers, trees, chunks and caches; nothing is ever changed."""

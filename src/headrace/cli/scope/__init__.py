"""``headrace scope``: creates, lists and deletes scopes, the names above streams and tables."""

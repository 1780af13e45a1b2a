"""``headrace scope``: verbs of scopes."""

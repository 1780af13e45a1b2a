"""``headrace standalone`` and ``status``: a server of this process, and the state of one that runs."""

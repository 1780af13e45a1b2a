"""``headrace standalone`` and ``headrace status``: a server of this process, and the state of a running one."""

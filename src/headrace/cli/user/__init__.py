"""``headrace user``: who may use a server, and do what: adds, lists and removes lines of a users file."""

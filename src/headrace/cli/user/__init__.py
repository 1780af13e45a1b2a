"""``headrace user``: lines of a users file."""

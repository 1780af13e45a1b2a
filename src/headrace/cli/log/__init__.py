"""``headrace log``: the write-ahead logs of a system as a whole, wherever they are."""

"""``headrace cluster``: the birth of a cluster, and who serves what in it."""

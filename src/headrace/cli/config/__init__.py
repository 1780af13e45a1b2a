"""``headrace config``: settings, where each comes from, and whether a file of them is sound."""

"""``headrace context``: servers under names of a person's own."""

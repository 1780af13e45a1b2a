"""``headrace check``: whether the data of a container agrees with itself."""

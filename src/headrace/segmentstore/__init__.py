"""The data plane: one process, many containers, each the single owner of its segments."""

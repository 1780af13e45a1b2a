"""``headrace bench``: loads that measure a running server, and what a run of them says."""

"""``headrace demo``: the flights of New York 2013 through a durable stream and PySpark."""

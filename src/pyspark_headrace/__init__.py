"""Found by Spark's scan for ``pyspark_*`` packages; says which data source Headrace brings.

The scan imports every such package of the machine and one failure hides them all, so nothing here may raise
and nothing heavy is imported before it is needed.
"""

try:
    from headrace.spark.source import HeadraceDataSource as DefaultSource
except Exception:  # noqa: BLE001, S110 - another source must not vanish because ours cannot be imported
    pass
else:
    __all__ = ["DefaultSource"]

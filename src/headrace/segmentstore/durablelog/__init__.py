"""The durable log: operations in data frames, written to the WAL, applied once durable, replayed by
recovery.
"""

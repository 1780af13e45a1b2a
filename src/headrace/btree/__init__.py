"""An ordered map of fixed keys to 64-bit numbers in a log that can only be appended to and truncated below.

The package does no I/O: its functions are generators that yield the pages they need and are sent their bytes.
"""

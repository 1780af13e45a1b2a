"""One container: which segments are in memory, how calls find them, and the time in which it is owned."""

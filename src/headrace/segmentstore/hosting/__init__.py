"""Which containers run in this process, and which of them owns a segment."""

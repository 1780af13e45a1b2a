"""Reading: raw segment bytes in large pieces, cut into events without an object per event."""

"""Keys and values in segments: a log of entries, its index in long-term storage, conditional updates."""

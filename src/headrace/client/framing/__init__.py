"""Events as bytes of a segment, and bytes of a segment as events, many at a time."""

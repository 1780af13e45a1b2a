"""What a segment store tells systems that watch it: the metrics of its statistics."""

"""What the REST interface tells systems that watch a server: a table of metrics."""

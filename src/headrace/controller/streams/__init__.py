"""What one may do with scopes, streams, segments, reader groups and tables: one module per noun."""

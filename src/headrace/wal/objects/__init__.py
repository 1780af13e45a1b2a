"""The log in a bucket: every record an object that is created once, and never changes."""

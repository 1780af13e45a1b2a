"""Streams of one segment whose entries are appended on condition, and a state that is shared over one."""

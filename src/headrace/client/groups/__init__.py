"""Readers of several processes that share the streams of a group, in the format of the Java client."""

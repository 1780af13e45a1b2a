"""Requests to the owner of a bucket, as events in an internal stream."""

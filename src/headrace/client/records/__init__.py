"""Envelopes of records: a time, a key and headers around the bytes of an event, one by one and in columns."""

"""Kinds of long-term storage: the contract of chunks, and files, object stores and HDFS that keep it."""

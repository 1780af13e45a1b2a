"""Chunks as files of HDFS: one writer each by lease, appended to and read in threads."""

"""Chunks as files of HDFS."""

"""Chunks in stores: a small object store of ours; real ones and HDFS where they are installed."""

"""Chunks as files of a directory."""

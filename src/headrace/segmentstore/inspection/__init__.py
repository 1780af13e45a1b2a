"""Reads the data of a stopped container, or of one that runs elsewhere, without changing a byte."""

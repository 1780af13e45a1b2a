"""Looks into the data of a stopped container, or of one that runs elsewhere, without ever changing a byte."""

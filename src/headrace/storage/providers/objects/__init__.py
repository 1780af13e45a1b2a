"""Chunks as objects: S3, Google Cloud Storage, Azure and what speaks like them."""

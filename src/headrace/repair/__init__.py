"""Mends what a server cannot: truncates segments whose bytes are gone."""

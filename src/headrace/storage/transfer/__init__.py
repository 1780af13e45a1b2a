"""Moves what is in long-term storage: from one store to another, and out of a system and into another."""

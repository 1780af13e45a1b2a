"""The nouns of the command line."""

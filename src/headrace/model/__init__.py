"""The nouns of the system: names, ids, positions, key space, cuts, policies. Pure."""

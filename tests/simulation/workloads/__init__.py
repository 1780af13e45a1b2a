"""What clients do in a simulation while faults happen, and what must hold at the end."""

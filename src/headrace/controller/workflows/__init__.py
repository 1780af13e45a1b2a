"""How a stream moves from one consistent state to the next, in persisted steps that anyone can finish."""

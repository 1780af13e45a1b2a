"""The control plane: scopes, streams and their epochs, transactions, reader groups, key-value tables."""

"""Transactions: states, leases, order of commits, batches."""

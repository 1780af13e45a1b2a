"""Transactions in the store and in memory: rows and ids, leases, outcomes, sinks."""

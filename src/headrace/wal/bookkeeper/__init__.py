"""The log over Apache BookKeeper: a client of our own of its wire protocol 2, with its metadata of ledgers.

Owns what a ledger is, how it is written, fenced, recovered and read, and how a log is a row of ledgers.
"""

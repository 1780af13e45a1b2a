"""What is kept of transactions: their rows and ids, leases, outcomes, sinks."""

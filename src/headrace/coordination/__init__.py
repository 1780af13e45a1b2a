"""What many processes agree on: nodes that are changed conditionally, sessions, leases."""

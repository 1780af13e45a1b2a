"""The rows that say which chunks a segment has, and the contract of a store that commits them together."""

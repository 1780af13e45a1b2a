"""What a data directory is and was made for: record, chunks and logs, and what may have been lost."""

"""Extended attributes beyond memory: one B+Tree per segment in long-term storage, and its pages in memory."""

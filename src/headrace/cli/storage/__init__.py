"""``headrace storage``: check, mend, copy and move what long-term storage holds."""

"""What must have happened, for somebody who knows nothing of the implementation but its answers."""

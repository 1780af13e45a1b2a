"""How a container slows down before it has to stop: sources of delay, each plain arithmetic, and one gate."""

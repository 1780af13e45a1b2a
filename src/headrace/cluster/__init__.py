"""What the processes of a cluster agree on about containers: who is to serve each of them, and who does."""

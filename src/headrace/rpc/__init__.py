"""Client to controller: the protocol's gRPC interface, our own beside it, and conversions to the model."""

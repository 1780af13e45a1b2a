"""What a client can be asked, by noun. :class:`headrace.client.connect.Client` is all of it."""

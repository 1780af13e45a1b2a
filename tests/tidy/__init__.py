"""Small tests that read the repository and keep it as tidy as somebody left it."""

"""``headrace controller``: what controllers do in the background, and what they gave up."""

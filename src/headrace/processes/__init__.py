"""What a process of Headrace is made of: a segment store, a controller, or both on one loop."""

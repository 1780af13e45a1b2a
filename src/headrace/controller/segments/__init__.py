"""What a controller asks of segment stores: calls about segments, and which host has a segment."""

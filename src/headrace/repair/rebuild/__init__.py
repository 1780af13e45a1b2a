"""Makes a data directory anew from the copies of its logs beside the chunks."""

"""The only package that touches clock, chance, threads and file system; everything above receives them."""

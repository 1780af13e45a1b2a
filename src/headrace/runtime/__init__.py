"""The only package that uses clock, random numbers, threads and file system; others receive them."""

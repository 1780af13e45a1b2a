"""One bounded memory for the cached bytes of all containers of a process."""

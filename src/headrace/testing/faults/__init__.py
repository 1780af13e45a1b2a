"""What goes wrong in a simulation while workloads run."""

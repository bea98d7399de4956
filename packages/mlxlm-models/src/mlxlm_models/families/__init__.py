"""One file per family of architectures: what is particular to it, and nothing else."""

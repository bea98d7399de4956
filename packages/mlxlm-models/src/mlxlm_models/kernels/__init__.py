"""CUDA kernels, for what a profile showed MLX to be slow at, and when they apply."""

"""The names of mlx-lm, served by mlxlm."""

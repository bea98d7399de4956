"""mlx-lm's package `models`."""

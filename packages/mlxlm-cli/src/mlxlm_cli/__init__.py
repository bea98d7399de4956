"""The mlx_lm commands."""

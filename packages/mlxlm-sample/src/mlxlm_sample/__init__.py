"""Samplers and logits processors for language models on MLX."""

"""Language-model architectures, loading, tokenizers and chat templates on MLX."""

"""KV caches, masks and cache-aware attention for MLX, and prompt-cache files."""

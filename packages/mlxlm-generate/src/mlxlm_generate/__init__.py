"""Turn prompts into tokens, with any MLX model and any tokenizer."""

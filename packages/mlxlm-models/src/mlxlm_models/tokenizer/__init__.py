"""Tokenizers: loading, the wrapper that generation uses, and streaming detokenizers."""

"""Streaming detokenizers: token by token, the same text as decoding the whole list at once."""

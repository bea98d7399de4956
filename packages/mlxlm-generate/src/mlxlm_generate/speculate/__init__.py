"""Speculation: guess the next tokens cheaply, and let the model check them at once."""

"""Prefix reuse: what was computed for a prompt serves the next one that starts alike."""

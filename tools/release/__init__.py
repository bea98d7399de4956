"""Releases: found in history, rebuilt from it, and made; `python -m tools.release` does it."""

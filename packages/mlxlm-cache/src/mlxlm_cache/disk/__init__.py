"""A disk tier for prompt caches."""

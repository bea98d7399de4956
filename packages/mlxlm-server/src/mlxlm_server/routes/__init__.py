"""The paths that are served, a file for each dialect."""

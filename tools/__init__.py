"""What keeps the workspace and its releases true; none of it is published."""

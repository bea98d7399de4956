"""Chat templates, and what they say about thinking and tool calls."""

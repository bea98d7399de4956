"""Reading a model's tool calls: one reader per format, whole texts and streams."""

from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "n": {"type": "integer"},
                    "x": {"type": "number"},
                    "b": {"type": "boolean"},
                    "l": {"type": "array", "items": {"type": "string"}},
                    "o": {"$ref": "#/$defs/pair"},
                    "either": {"type": ["number", "integer"]},
                    "colour": {"enum": ["blue", 7]},
                    "u": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
                "$defs": {"pair": {"type": "object"}},
            },
        },
    },
    {"name": "g", "input_schema": {"type": "object", "properties": {}}},
]

from typing import Any

import pytest
from mlxlm_models.chat.tool_calls.call import parameters_schema
from mlxlm_models.chat.tool_calls.typed import typed_argument

from .conftest import TOOLS


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("12", "s", "12"),
        ("true", "s", "true"),
        ("12", "n", 12),
        ("12.0", "n", 12),
        ("1.5", "n", "1.5"),
        ("True", "n", "True"),
        ("1.5", "x", 1.5),
        ("1e999", "x", "1e999"),
        ("True", "b", True),
        ("no", "b", "no"),
        ('["a"]', "l", ["a"]),
        ("['a', True]", "l", ["a", True]),
        ("['a'", "l", "['a'"),
        ("{'a': (1, None)}", "o", {"a": [1, None]}),
        ("{1: 2}", "o", "{1: 2}"),
        ("{'a': open}", "o", "{'a': open}"),
        ("3", "either", 3),
        ("3.0", "either", 3.0),
        ("blue", "colour", "blue"),
        ("7", "colour", 7),
        ("{}", "o", {}),
        ("null", "u", None),
        ("3", "u", 3),
        ("12", "unknown", 12),
        ("twelve", "unknown", "twelve"),
        ("NaN", "unknown", "NaN"),
    ],
)
def test_the_schema_types_an_argument(text: str, name: str, value: Any) -> None:
    result = typed_argument(text, name, parameters_schema("f", TOOLS))
    assert result == value
    assert type(result) is type(value)

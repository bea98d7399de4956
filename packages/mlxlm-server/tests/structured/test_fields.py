from typing import Any

import pytest
from mlxlm_server import ApiError, Grammar
from mlxlm_server.structured.fields import StructuredFields, Wanted, of_format, wanted

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
NAMED = {"name": "answer", "strict": True, "schema": SCHEMA}


@pytest.mark.parametrize(
    ("given", "grammar"),
    [
        ({"response_format": {"type": "json_object"}}, Grammar.json_object()),
        ({"response_format": {"type": "json_schema", "json_schema": NAMED}}, SCHEMA),
        ({"json_schema": SCHEMA}, SCHEMA),
        ({"guided_json": SCHEMA}, SCHEMA),
        ({"structured_outputs": {"json": SCHEMA}}, SCHEMA),
        ({"structured_outputs": {"json_object": True, "regex": None}}, Grammar.json_object()),
        ({"structured_outputs": {"choice": ["a"]}}, Grammar.choice(["a"])),
        ({"structured_outputs": {"grammar": "root ::= a"}}, Grammar.rules("root ::= a")),
        ({"regex": "a+"}, Grammar.regex("a+")),
        ({"guided_regex": "a+"}, Grammar.regex("a+")),
        ({"guided_choice": ["a", "b"]}, Grammar.choice(["a", "b"])),
        ({"grammar": "start: /a/"}, Grammar.rules("start: /a/")),
        ({"ebnf": "root ::= a"}, Grammar.rules("root ::= a")),
        ({"guided_grammar": "root ::= a"}, Grammar.rules("root ::= a")),
    ],
)
def test_each_name_asks_for_its_grammar(given: dict[str, Any], grammar: Any) -> None:
    if isinstance(grammar, dict):
        grammar = Grammar.json_schema(grammar)
    assert wanted(StructuredFields(**given)) == Wanted(grammar, next(iter(given)))


def test_text_and_nothing_ask_for_none() -> None:
    assert wanted(StructuredFields()) is None
    assert wanted(StructuredFields(response_format={"type": "text"})) is None


def test_the_format_of_responses_has_its_schema_beside_the_type() -> None:
    given = {"type": "json_schema", **NAMED}
    assert of_format(given, "text.format") == Wanted(Grammar.json_schema(SCHEMA), "text.format")


@pytest.mark.parametrize(
    ("given", "param", "says"),
    [
        ({"response_format": {"type": "xml"}}, "response_format", "json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format", "js"),
        ({"regex": "a", "guided_json": SCHEMA}, "guided_json", "one of them"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs", "structural_tag"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs", "one of"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs", "int"),
        ({"structured_outputs": {"choice": [3]}}, "structured_outputs", "texts"),
        ({"guided_choice": []}, "guided_choice", "one text"),
    ],
)
def test_R34_what_is_wrong_is_status_400_and_named(
    given: dict[str, Any], param: str, says: str
) -> None:
    with pytest.raises(ApiError, match=says) as caught:
        wanted(StructuredFields(**given))
    assert (caught.value.status, caught.value.param) == (400, param)

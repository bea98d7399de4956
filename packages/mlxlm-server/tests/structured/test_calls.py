import random
from copy import deepcopy
from typing import Any

import jsonschema
import pytest
from mlxlm_models import TokenizerWrapper, read_tool_calls
from mlxlm_server import ApiError, GrammarError, Grammars
from mlxlm_server.structured.calls import _LAYOUTS, _OLDER, Forced, calls_grammar
from mlxlm_server.structured.fields import of_calls, of_choice

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Köln", 'a "b" </tool_call>']},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "where": {"$ref": "#/$defs/place"},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now"}},
]
EMPTY = {"type": "object", "additionalProperties": False}
SCHEMAS = {"weather": WEATHER, "now": EMPTY}
MARKERS = [
    "<tool_call>", "</tool_call>", "<longcat_tool_call>", "</longcat_tool_call>", "<|role_sep|>",
    "<|START_ACTION|>", "<|END_ACTION|>", "<|action_start|>", "<|plugin|>", "<|action_end|>",
    "<TOOLCALL>", "</TOOLCALL>", "<|tool_call|>", "<|/tool_call|>", "[TOOL_CALLS]", "[ARGS]",
    "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
    "<|tool_call_end|>", "<|tool_call_argument_begin|>", "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
    "<|tools_prefix|>", "<|tools_suffix|>",
]  # fmt: skip


class Model:
    """A tokenizer of one format, its grammars, and answers of random tokens."""

    def __init__(self, tokenizer: TokenizerWrapper, grammars: Grammars) -> None:
        self.tokenizer, self.grammars = tokenizer, grammars

    def answer(self, forced: Forced, seed: int) -> tuple[str, list[Any]]:
        grammar = calls_grammar(self.tokenizer, TOOLS, forced)
        constraint = self.grammars.constraint(grammar)
        drawing = random.Random(seed)
        tokens: list[int] = []
        while True:
            may = constraint.allowed().nonzero()[0].tolist()
            ends = sorted(set(may) & set(self.tokenizer.eos_token_ids))
            token = ends[0] if ends and drawing.random() < 0.5 else drawing.choice(may)
            constraint.advance(token)
            if token in self.tokenizer.eos_token_ids:
                break
            tokens.append(token)
        text = self.tokenizer.decode(tokens)
        read = read_tool_calls(text, self.tokenizer.tool_parser, TOOLS)
        assert read.text == "", text
        return text, list(read.calls)


BASES: dict[bool, tuple[Any, Grammars]] = {}
FORMATS = [(name, False) for name in _LAYOUTS] + [(name, True) for name in _OLDER]


@pytest.fixture(params=FORMATS, ids=lambda each: each[0] + "-older" * each[1])
def made(request: Any, tokenizer: Any) -> Model:
    """Markers are tokens of their own, but for older models where that tells them apart."""
    name, older = request.param
    plain = older and name == "mistral"
    if plain not in BASES:
        base = deepcopy(tokenizer._tokenizer)
        base.add_special_tokens({"additional_special_tokens": [] if plain else MARKERS})
        BASES[plain] = base, Grammars(TokenizerWrapper(base, tool_parser_type=name))
    base, grammars = BASES[plain]
    base.chat_template = "```json" if older else ""
    return Model(TokenizerWrapper(base, tool_parser_type=name), grammars)


def test_random_tokens_call_what_there_is_with_arguments_of_its_schema(made: Model) -> None:
    names, counts = set(), set()
    for seed in range(6):
        _, calls = made.answer(Forced(), seed)
        counts.add(len(calls))
        for call in calls:
            names.add(call.name)
            jsonschema.validate(call.arguments, SCHEMAS[call.name])
    assert names == set(SCHEMAS)
    assert min(counts) == 1


def test_one_call_of_a_named_function(made: Model) -> None:
    for seed in range(3):
        (call,) = made.answer(Forced("weather", several=False), seed)[1]
        assert call.name == "weather"


def test_markers_that_are_no_tokens_are_written_as_text(tokenizer: Any) -> None:
    plain = TokenizerWrapper(tokenizer._tokenizer, tool_parser_type="json_tools")
    text, (call, *_) = Model(plain, Grammars(plain)).answer(Forced("now"), 1)
    assert text.startswith('<tool_call>\n{"name": "now", "arguments": {')
    assert call.arguments == {}


@pytest.mark.parametrize(
    ("parser", "tools", "name", "says"),
    [
        ("json_tools", [], None, "no tools"),
        ("json_tools", TOOLS, "other", "no tool 'other'"),
        ("json_tools", [{"name": 'a"b'}], None, "is no name"),
        ("json_tools", [{"name": "a", "parameters": {"type": "array"}}], None, "'array'"),
        ("gpt_oss", TOOLS, None, "gpt_oss.*json_tools"),
        (None, TOOLS, None, "knows no tools"),
    ],
)
def test_R34_what_cannot_be_forced_is_told(
    tokenizer: Any, parser: str | None, tools: Any, name: str | None, says: str
) -> None:
    other = TokenizerWrapper(tokenizer._tokenizer, tool_parser_type=parser)
    with pytest.raises(GrammarError, match=says):
        calls_grammar(other, tools, Forced(name))
    with pytest.raises(ApiError) as caught:
        of_calls(other, tools, Forced(name))
    assert (caught.value.status, caught.value.param) == (400, "tool_choice")


def test_the_ways_to_choose() -> None:
    assert [of_choice(choice, True) for choice in (None, "auto", "none")] == [None] * 3
    assert of_choice("required", False) == Forced(None, several=False)
    named = {"type": "function", "function": {"name": "f"}}
    assert of_choice(named, True) == of_choice({"type": "function", "name": "f"}, True)
    assert of_choice(named, True) == Forced("f")
    for wrong in ("any", {"type": "function"}, {"type": "allowed_tools"}):
        with pytest.raises(ApiError, match="tool_choice"):
            of_choice(wrong, True)

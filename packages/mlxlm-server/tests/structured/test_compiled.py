import json
import random
import re
import sys
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_generate import NGramDrafter, Request
from mlxlm_sample import make_sampler
from mlxlm_server import Grammar, GrammarError, Grammars
from mlxlm_server.structured.grammar import LONGEST, MOST_RULES

WORDS = st.sampled_from(["a", "name", "größe", 'with "quotes"'])
LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span},
              st.integers(-50, 50), st.integers(0, 100)),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 5)),
    st.builds(lambda values: {"enum": values}, st.lists(WORDS, min_size=1, max_size=3)),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"const": 3.5}]),
)  # fmt: skip
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most},
                  inner, st.integers(0, 3)),
        st.builds(lambda parts: {"type": "object", "properties": parts, "required": [*parts],
                                 "additionalProperties": False},
                  st.dictionaries(WORDS, inner, max_size=3)),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=4,
)  # fmt: skip


def ask(tokenizer: Any, constraint: Any = None, most: int = 400, **options: Any) -> Request:
    return Request([tokenizer.encode("Hello, here is")], most, constraint=constraint, **options)


@settings(max_examples=15, deadline=None)
@given(st.lists(SCHEMAS, min_size=1, max_size=3), st.integers(0, 99), st.booleans())
def test_random_tokens_make_valid_json_and_neighbours_answer_as_alone(
    answers: Any, grammars: Any, tokenizer: Any, schemas: list[Any], seed: int, guesses: bool
) -> None:
    neighbour = ask(tokenizer, most=20)
    alone = answers([neighbour])
    drawn = [
        ask(
            tokenizer,
            grammars.constraint(Grammar.json_schema(schema)),
            sampler=make_sampler(temp=1.0),
            key=seed + i,
        )
        for i, schema in enumerate(schemas)
    ]
    drafter = {"drafter": lambda: NGramDrafter(2, 1)} if guesses else {}
    *structured, beside = answers([*drawn, neighbour], **drafter)
    assert [beside] == alone
    for (text, reason), schema in zip(structured, schemas, strict=True):
        if reason == "stop":
            jsonschema.validate(json.loads(text), schema)
        else:  # it went on with white space
            assert reason == "length"


@pytest.mark.parametrize(
    ("grammar", "right"),
    [
        (Grammar.regex(r"(\d{3}-){2}\d{2}/[a-c]"), r"(\d{3}-){2}\d{2}/[a-c]"),
        (Grammar.choice(["yes", "no", 'may"be\n']), 'yes|no|may"be\n'),
        (Grammar.rules('start: "a" WORD\nWORD: /[b-d]{2,4}/'), "a[b-d]{2,4}"),
        (Grammar.rules('root ::= "a" ("b" | "c") digit\ndigit ::= [0-9]'), "a[bc][0-9]"),
    ],
)
def test_random_tokens_follow_a_grammar(
    answers: Any, grammars: Any, tokenizer: Any, grammar: Grammar, right: str
) -> None:
    requests = [
        ask(tokenizer, grammars.constraint(grammar), sampler=make_sampler(temp=1.0), key=i)
        for i in range(4)
    ]
    for text, reason in answers(requests):
        assert reason == "stop"
        assert re.fullmatch(right, text)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 99))
def test_a_rollback_leaves_what_was_before(grammars: Any, steps: list[int], seed: int) -> None:
    schema = {"type": "array", "items": {"enum": ["one", "two", 3]}, "maxItems": 2}
    constraint = grammars.constraint(Grammar.json_schema(schema))
    drawing = random.Random(seed)
    tokens: list[int] = []
    masks = [constraint.allowed().tolist()]
    for step in steps:
        for _ in range(step):
            may = [i for i, allowed in enumerate(masks[-1]) if allowed]
            tokens.append(drawing.choice(may))
            constraint.advance(tokens[-1])
            masks.append(constraint.allowed().tolist())
        back = drawing.randint(0, step)
        constraint.rollback(back)
        del tokens[len(tokens) - back :], masks[len(masks) - back :]
        assert constraint.allowed().tolist() == masks[-1]


def test_a_refused_token_is_an_error_that_a_rollback_takes_back(
    grammars: Any, tokenizer: Any
) -> None:
    constraint = grammars.constraint(Grammar.choice(["yes"]))
    before = constraint.allowed().tolist()
    (wrong,) = tokenizer.encode("no", add_special_tokens=False)
    with pytest.raises(GrammarError, match="left its grammar"):
        constraint.advance(wrong)
    constraint.rollback(1)
    assert constraint.allowed().tolist() == before


def test_the_end_comes_where_the_answer_is_complete_and_nowhere_else(
    grammars: Any, tokenizer: Any
) -> None:
    constraint = grammars.constraint(Grammar.regex("ab?"))
    ends = sorted(tokenizer.eos_token_ids)
    assert not constraint.complete
    assert not constraint.allowed()[ends].any()
    constraint.advance(tokenizer.encode("a", add_special_tokens=False)[0])
    assert constraint.complete
    assert constraint.allowed()[ends].all()
    constraint.advance(tokenizer.encode("b", add_special_tokens=False)[0])
    assert constraint.allowed().nonzero()[0].tolist() == ends


def test_a_text_that_is_written_like_a_special_token_is_no_such_token(
    answers: Any, grammars: Any, tokenizer: Any
) -> None:
    for value in ("a<|im_end|>b", "<|im_start|>"):
        grammar = Grammar.json_schema({"const": value})
        ((text, reason),) = answers([ask(tokenizer, grammars.constraint(grammar))])
        assert (json.loads(text), reason) == (value, "stop")


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (Grammar.json_schema("{"), "EOF"),
        (Grammar.json_schema({"type": "strang"}), "strang"),
        (Grammar.json_schema({"unevaluatedProperties": False}), "unevaluatedProperties"),
        (Grammar.json_schema({"$ref": "#"}), "no text"),
        (Grammar.json_schema({"$ref": "https://example.org/a"}), "not present"),
        (Grammar.regex("(?=a)b"), "look-ahead"),
        (Grammar.rules("start: other"), "other"),
        (Grammar.rules("root ::= other"), "other"),
        (Grammar.rules("root ::= " + "(" * 900 + '"a"' + ")" * 900), "no GBNF"),
    ],
)
def test_R34_what_no_grammar_can_be_is_told_with_the_reason(
    grammars: Any, grammar: Grammar, reason: str
) -> None:
    with pytest.raises(GrammarError, match=reason):
        grammars.constraint(grammar)


def test_what_is_too_large_is_an_error() -> None:
    with pytest.raises(GrammarError, match=str(LONGEST)):
        Grammar.json_schema({"const": "a" * LONGEST})
    with pytest.raises(GrammarError, match=str(MOST_RULES)):
        Grammar.rules("start: a\n" * (MOST_RULES + 1))
    with pytest.raises(GrammarError, match="surrogate"):
        Grammar.choice(["\ud800"])
    with pytest.raises(GrammarError, match="empty"):
        Grammar.choice([])


def test_R31_deep_references_cost_no_stack_of_the_caller(grammars: Any) -> None:
    depth = 3900  # what ends the process in a thread of the usual 8 MB
    rules = [f'r{i}: r{i + 1} "x"' for i in range(depth)]
    deep = grammars.constraint(Grammar.rules("\n".join(["start: r0", *rules, f'r{depth}: "a"'])))
    assert deep.allowed().any()


def test_a_grammar_is_compiled_once_and_the_latest_are_kept(tokenizer: Any) -> None:
    grammars = Grammars(tokenizer, most=2)
    first, second, third = (Grammar.choice([text]) for text in "abc")
    one = grammars.submit(first).result()
    assert grammars.submit(first).result() is one
    grammars.submit(second).result()
    assert grammars.submit(first).result() is one
    grammars.submit(third).result()
    grammars.submit(second).result()
    assert grammars.submit(first).result() is not one
    grammars.close()


def test_without_the_extra_or_a_fast_tokenizer_the_error_says_so(
    monkeypatch: Any, tokenizer: Any
) -> None:
    slow = SimpleNamespace(eos_token_ids={0})
    with pytest.raises(GrammarError, match="fast tokenizer"):
        Grammars(slow).constraint(Grammar.json_object())
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(GrammarError, match=r"mlxlm-server\[structured\]"):
        Grammars(tokenizer).constraint(Grammar.json_object())

"""What requests ask of an answer's form, in the words of OpenAI, vLLM, SGLang and llama.cpp."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from mlxlm_server.errors import ApiError, invalid
from mlxlm_server.structured.calls import Forced, calls_grammar
from mlxlm_server.structured.grammar import Grammar, GrammarError


class Wanted(NamedTuple):
    """A grammar, and the field that asks for it."""

    grammar: Grammar
    param: str


class StructuredFields(BaseModel):
    """One of these at most, beside `response_format: {"type": "text"}`."""

    response_format: dict[str, Any] | None = None
    json_schema: dict[str, Any] | str | None = None
    regex: str | None = None
    grammar: str | None = None
    ebnf: str | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    structured_outputs: dict[str, Any] | None = None


_MAKERS: dict[str, Callable[[Any], Grammar]] = {
    "json_schema": Grammar.json_schema,
    "regex": Grammar.regex,
    "grammar": Grammar.rules,
    "ebnf": Grammar.rules,
    "guided_json": Grammar.json_schema,
    "guided_regex": Grammar.regex,
    "guided_choice": Grammar.choice,
    "guided_grammar": Grammar.rules,
}
_OUTPUTS: dict[str, tuple[type | tuple[type, ...], Callable[[Any], Grammar]]] = {
    "json": ((dict, str), Grammar.json_schema),
    "regex": (str, Grammar.regex),
    "choice": (list, Grammar.choice),
    "grammar": (str, Grammar.rules),
    "json_object": (bool, lambda _: Grammar.json_object()),
}
"""What vLLM's `structured_outputs` may have."""


def wanted(body: StructuredFields) -> Wanted | None:
    """Return what a request asks for; ApiError 400 names what is wrong with it."""
    found = [of_format(body.response_format), _of_outputs(body.structured_outputs)]
    for field, make in _MAKERS.items():
        if (value := getattr(body, field)) is not None:
            found.append(_made(make, value, field))
    asked = [each for each in found if each is not None]
    if len(asked) > 1:
        names = ", ".join(each.param for each in asked)
        raise invalid(f"{names}: an answer has one form, so give one of them.", asked[1].param)
    return asked[0] if asked else None


def of_format(given: Mapping[str, Any] | None, param: str = "response_format") -> Wanted | None:
    """Return what OpenAI's `response_format` asks for, or `text.format` of its responses.

    The latter has the schema beside its type. `strict` and the name change nothing: every
    answer keeps to its schema.
    """
    kind = "text" if given is None else given.get("type")
    if given is None or kind == "text":
        return None
    if kind == "json_object":
        return Wanted(Grammar.json_object(), param)
    if kind != "json_schema":
        raise invalid(f"{param}.type can be text, json_object or json_schema.", param)
    outer = given.get("json_schema", given)
    schema = outer.get("schema") if isinstance(outer, Mapping) else None
    if not isinstance(schema, Mapping):
        where = "json_schema.schema" if "json_schema" in given else "schema"
        raise invalid(f"{param}.{where} has to be a JSON schema.", param)
    return _made(Grammar.json_schema, schema, param)


def of_calls(
    tokenizer: Any,
    tools: Sequence[Mapping[str, Any]] | None,
    forced: Forced,
    param: str = "tool_choice",
) -> Wanted:
    """Return what an answer that must call tools looks like; ApiError 400 where it can't be."""
    try:
        return Wanted(calls_grammar(tokenizer, tools, forced), param)
    except GrammarError as error:
        raise refused(error, param) from error


def of_choice(choice: str | Mapping[str, Any] | None, several: bool) -> Forced | None:
    """Return what OpenAI's `tool_choice` forces, None for auto and none.

    The function's name may stand beside the type, as in its responses.
    """
    if choice in (None, "auto", "none"):
        return None
    if choice == "required":
        return Forced(several=several)
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        inner = choice.get("function", choice)
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if isinstance(name, str):
            return Forced(name, several)
    raise invalid(
        "tool_choice can be auto, none, required, or a function by its name.", "tool_choice"
    )


def _of_outputs(given: Mapping[str, Any] | None) -> Wanted | None:
    param = "structured_outputs"
    if given is None:
        return None
    asked = {name: value for name, value in given.items() if value not in (None, False)}
    if unknown := sorted(asked.keys() - _OUTPUTS.keys()):
        raise invalid(
            f"{param}.{unknown[0]} is not supported: it can be {', '.join(_OUTPUTS)}.", param
        )
    if len(asked) != 1:
        raise invalid(f"{param} takes one of {', '.join(_OUTPUTS)}.", param)
    name, value = next(iter(asked.items()))
    kind, make = _OUTPUTS[name]
    if not isinstance(value, kind):
        raise invalid(f"{param}.{name} has the wrong type, {type(value).__name__}.", param)
    if isinstance(value, list) and not all(isinstance(text, str) for text in value):
        raise invalid(f"{param}.{name} is a list of texts.", param)
    return _made(make, value, param)


def _made(make: Callable[[Any], Grammar], value: Any, param: str) -> Wanted:
    try:
        return Wanted(make(value), param)
    except GrammarError as error:
        raise refused(error, param) from error


def refused(error: GrammarError, param: str) -> ApiError:
    """Return what a client is told of a grammar that can't be used."""
    return invalid(f"{param}: {error}", param, code="invalid_grammar")

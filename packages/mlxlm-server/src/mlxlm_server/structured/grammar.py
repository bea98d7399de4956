"""What an answer must look like, whatever the model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

LONGEST = 2**18
"""Characters of a grammar. With `MOST_RULES`, keeps recursion over it within its stack."""
MOST_RULES = 4000


class GrammarError(ValueError):
    """A grammar that can't be one, or asks for more than it may; or an answer left it."""


@dataclass(frozen=True)
class Grammar:
    """The whole answer is a JSON value of a schema, matches a regular expression, or is derived
    from `start` of a Lark grammar or `root` of a GBNF one. GrammarError where that can't be.

    "lark" are rules of our own making, "rules" those of others, whose number is bounded.
    What is in a schema and not understood is an error when it is compiled, never ignored.
    """

    kind: Literal["json_schema", "regex", "rules", "lark"]
    text: str

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            raise GrammarError(
                f"The grammar has {len(self.text)} characters, and the limit is {LONGEST}."
            )
        rules = self.text.count("::=") or self.text.count(":")
        if self.kind == "rules" and rules > MOST_RULES:
            raise GrammarError(f"The grammar has {rules} rules, and the limit is {MOST_RULES}.")
        if not self.text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in self.text):
            raise GrammarError("The grammar has half of a surrogate pair in it.")

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | bool | str) -> Self:
        """JSON of a schema, given as a value or as JSON text."""
        text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
        return cls("json_schema", text)

    @classmethod
    def json_object(cls) -> Self:
        return cls.json_schema({"type": "object"})

    @classmethod
    def regex(cls, pattern: str) -> Self:
        """What matches from its first character to its last; Rust's syntax."""
        return cls("regex", pattern)

    @classmethod
    def rules(cls, text: str) -> Self:
        """Lark as llguidance has it, or GBNF as llama.cpp has it."""
        return cls("rules", text)

    @classmethod
    def choice(cls, texts: Sequence[str]) -> Self:
        """One of some texts."""
        if not texts or not all(texts):
            raise GrammarError("A choice needs one text at least, and none that is empty.")
        return cls("rules", "start: " + " | ".join(map(quoted, texts)))


def quoted(text: str) -> str:
    """Return a text as Lark writes one."""
    return json.dumps(text, ensure_ascii=False)

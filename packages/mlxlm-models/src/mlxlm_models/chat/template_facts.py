"""What a chat template reads and writes, found by parsing it, not by running it."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mlxlm_models.errors import TokenizerError

if TYPE_CHECKING:
    from jinja2 import Environment

_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)


@dataclass(frozen=True)
class TemplateFacts:
    variables: frozenset[str]
    """The names that the template expects from outside."""
    wording: str
    """Its source without comments, and each of its strings with escapes resolved."""

    def mentions(self, marker: str) -> bool:
        return marker in self.wording


@lru_cache(maxsize=16)
def read_template(source: str) -> TemplateFacts:
    """Parse a template; TokenizerError naming line and reason where it has a syntax error."""
    from jinja2 import TemplateSyntaxError, meta, nodes

    try:
        tree = _environment().parse(source)
    except TemplateSyntaxError as error:
        lines = source.splitlines()
        line = lines[error.lineno - 1].strip() if error.lineno <= len(lines) else ""
        raise TokenizerError(
            f"the chat template has a syntax error in line {error.lineno}: {error.message}"
            + (f" ({line[:80]})" if line else "")
        ) from error
    strings = [text.data for text in tree.find_all(nodes.TemplateData)]
    strings += [str(text.value) for text in tree.find_all(nodes.Const)]
    return TemplateFacts(
        variables=frozenset(meta.find_undeclared_variables(tree)),
        wording="\0".join((_COMMENT.sub("", source), *strings)),
    )


@lru_cache(maxsize=1)
def _environment() -> "Environment":
    """The dialect of chat templates: loop controls, and `{% generation %}` blocks."""
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    extensions: list[Any] = ["jinja2.ext.loopcontrols", Generation]
    return ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=extensions
    )

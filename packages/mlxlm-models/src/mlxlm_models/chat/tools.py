"""Which parser reads a model's tool calls."""

import logging
from functools import lru_cache

from mlxlm_models.errors import TokenizerError

from .template_facts import TemplateFacts
from .tool_calls.formats import ALIASES, TOOL_PARSERS
from .tool_calls.parser import Marker, ToolParser

logger = logging.getLogger(__name__)


def choose_tool_parser(
    facts: TemplateFacts | None, explicit: str | None = None
) -> ToolParser | None:
    """Return the parser named, else the one whose markers the template mentions, else None.

    TokenizerError for an unknown name; a warning where several parsers could be meant.
    """
    if explicit is not None:
        parser = TOOL_PARSERS.get(ALIASES.get(explicit, explicit))
        if parser is None:
            raise TokenizerError(
                f"tool_parser_type: there is no tool parser {explicit!r}. "
                f"Known: {', '.join((*TOOL_PARSERS, *ALIASES))}"
            )
        return parser
    return None if facts is None else _infer(facts)


@lru_cache(maxsize=16)
def _infer(facts: TemplateFacts) -> ToolParser | None:
    candidates = [p for p in TOOL_PARSERS.values() if _mentions(facts, p.markers)]
    settled = [p for p in candidates if p.decisive and _mentions(facts, p.decisive)]
    best = settled or candidates
    if len(best) > 1:
        logger.warning(
            "The chat template could mean the tool parsers %s; taking %s. "
            "Set tool_parser_type in tokenizer_config to choose.",
            ", ".join(parser.name for parser in best),
            best[0].name,
        )
    return best[0] if best else None


def _mentions(facts: TemplateFacts, markers: tuple[Marker, ...]) -> bool:
    return all(
        any(map(facts.mentions, (marker,) if isinstance(marker, str) else marker))
        for marker in markers
    )

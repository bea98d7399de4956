"""Which parser reads a model's tool calls."""

import logging
from dataclasses import dataclass
from functools import lru_cache

from mlxlm_models.errors import TokenizerError

from .template_facts import TemplateFacts

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToolParser:
    name: str
    start: str
    end: str
    """What ends a call; empty where the end of the answer does."""
    markers: tuple[str, ...]
    """What a template must mention for this parser to be its candidate."""
    decisive: tuple[str, ...] = ()
    """What no other parser's template mentions: settles it among several candidates."""


def _own(name: str, start: str, end: str, *markers: str) -> ToolParser:
    return ToolParser(name, start, end, markers, decisive=markers)


TOOL_PARSERS = {
    parser.name: parser
    for parser in (
        _own("minimax_m2", "<minimax:tool_call>", "</minimax:tool_call>", "<minimax:tool_call>"),
        _own("gemma4", "<|tool_call>", "<tool_call|>", "<|tool_call>", "<tool_call|>"),
        _own(
            "function_gemma",
            "<start_function_call>",
            "<end_function_call>",
            "<start_function_call>",
        ),
        _own("longcat", "<longcat_tool_call>", "</longcat_tool_call>", "<longcat_tool_call>"),
        _own("glm47", "<tool_call>", "</tool_call>", "<arg_key>"),
        _own("pythonic", "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_list_start|>"),
        ToolParser(
            "qwen3_coder",
            "<tool_call>",
            "</tool_call>",
            markers=("<tool_call>", "<function="),
            decisive=("<tool_call>\n<function=",),
        ),
        _own(
            "kimi_k2",
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_calls_section_begin|>",
        ),
        _own("mistral", "[TOOL_CALLS]", "", "[TOOL_CALLS]"),
        ToolParser(
            "json_tools", "<tool_call>", "</tool_call>", markers=("<tool_call>", "tool_call.name")
        ),
    )
}


def choose_tool_parser(
    facts: TemplateFacts | None, explicit: str | None = None
) -> ToolParser | None:
    """Return the parser named, else the one whose markers the template mentions, else None.

    TokenizerError for an unknown name; a warning where several parsers could be meant.
    """
    if explicit is not None:
        if explicit not in TOOL_PARSERS:
            raise TokenizerError(
                f"tool_parser_type: there is no tool parser {explicit!r}. "
                f"Known: {', '.join(TOOL_PARSERS)}"
            )
        return TOOL_PARSERS[explicit]
    return None if facts is None else _infer(facts)


@lru_cache(maxsize=16)
def _infer(facts: TemplateFacts) -> ToolParser | None:
    candidates = [
        parser
        for parser in TOOL_PARSERS.values()
        if all(facts.mentions(marker) for marker in parser.markers)
    ]
    settled = [
        parser
        for parser in candidates
        if parser.decisive and all(facts.mentions(marker) for marker in parser.decisive)
    ]
    best = settled or candidates
    if len(best) > 1:
        logger.warning(
            "The chat template could mean the tool parsers %s; taking %s. "
            "Set tool_parser_type in tokenizer_config to choose.",
            ", ".join(parser.name for parser in best),
            best[0].name,
        )
    return best[0] if best else None

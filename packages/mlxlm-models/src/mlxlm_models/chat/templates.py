"""Applying chat templates, with errors that say what to do."""

import inspect
import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mlxlm_models.errors import TokenizerError

from .template_facts import read_template

logger = logging.getLogger(__name__)

_CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
_CHATML_MARKERS = ("<|im_start|>", "<|im_end|>")


def default_chat_template() -> str:
    """Return the ChatML template: `<|im_start|>role`, content, `<|im_end|>`."""
    return _CHATML


def use_default_chat_template(tokenizer: Any) -> None:
    """Give a tokenizer without a chat template the ChatML one, and end turns at `<|im_end|>`.

    A template of the model's own is its default and stays. TokenizerError where the
    vocabulary has no ChatML markers: there is no default then.
    """
    if tokenizer.chat_template:
        return
    missing = [marker for marker in _CHATML_MARKERS if marker not in tokenizer.get_vocab()]
    if missing:
        raise TokenizerError(
            "there is no default chat template for this tokenizer: it has none of its own, and "
            f"its vocabulary lacks {' and '.join(missing)}. Give a template instead."
        )
    tokenizer.chat_template = _CHATML
    tokenizer.add_eos_token("<|im_end|>")


def chat_template_source(
    tokenizer: Any, name: str | None = None, *, for_tools: bool = False
) -> str | None:
    """Return the text of the template that would be applied, or None.

    `name` is a named template or the text of one; `for_tools` prefers the one named `tool_use`.
    """
    templates = tokenizer.chat_template
    if not isinstance(templates, dict):
        return name or templates or None
    if name is not None:
        return str(templates.get(name, name))
    if for_tools and "tool_use" in templates:
        return str(templates["tool_use"])
    return templates.get("default")


def apply_chat_template(
    tokenizer: Any,
    conversation: Any,
    tools: Sequence[Any] | None = None,
    *,
    tokenize: bool = True,
    chat_template: str | None = None,
    **kwargs: Any,
) -> Any:
    """Render a conversation by a transformers tokenizer: token ids, or text."""
    from jinja2 import TemplateError

    source = chat_template_source(tokenizer, chat_template, for_tools=tools is not None)
    if source is None:
        raise TokenizerError(_no_template(tokenizer, conversation))
    variables = read_template(source).variables
    parameters = inspect.signature(tokenizer.apply_chat_template).parameters
    unread = {name for name in kwargs if name not in parameters} - variables
    if tools and "tools" not in variables:
        unread.add("tools")
    if unread:
        _warn_unread(", ".join(sorted(unread)))
    try:
        return tokenizer.apply_chat_template(
            conversation,
            tools=list(tools) if tools is not None else None,
            chat_template=chat_template,
            tokenize=tokenize,
            return_dict=kwargs.pop("return_dict", False),
            **kwargs,
        )
    except (TemplateError, TypeError, ValueError) as error:
        raise TokenizerError(f"the chat template cannot render these messages: {error}") from error


def _no_template(tokenizer: Any, conversation: Any) -> str:
    if names := sorted(tokenizer.chat_template or {}):
        return f"the tokenizer has no default chat template: choose one of {', '.join(names)}"
    messages = conversation if isinstance(conversation, (list, tuple)) else []
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    return (
        "the tokenizer has no chat template"
        + (", so the system prompt cannot be applied" if "system" in roles else "")
        + ": give one, use the default one, or pass plain text"
    )


@lru_cache(maxsize=64)
def _warn_unread(names: str) -> None:
    logger.warning("The chat template does not read %s: no effect.", names)

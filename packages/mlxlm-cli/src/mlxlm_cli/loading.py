"""From model flags to a model and a tokenizer."""

from argparse import Namespace
from typing import Any


def load(
    args: Namespace, *, model: str | None = None, revision: str | None = None
) -> tuple[Any, Any]:
    """Load what the flags name, or `model` where a prompt-cache file names it.

    `--use-default-chat-template` takes effect here, or raises where there is none (R39).
    """
    from mlxlm_models import load as load_model
    from mlxlm_models import use_default_chat_template

    loaded, tokenizer = load_model(
        model or args.model,
        adapter_path=args.adapter_path,
        revision=args.revision or revision,
        trust_remote_code=args.trust_remote_code,
        cpu_weights=args.cpu_weights,
    )
    if args.use_default_chat_template:
        use_default_chat_template(tokenizer)
    return loaded, tokenizer


def load_draft(args: Namespace, tokenizer: Any) -> Any:
    """Load the draft model that the flags name, or return None; R24 where it doesn't fit."""
    if args.draft_model is None:
        return None
    from mlxlm_generate import check_draft_tokenizer
    from mlxlm_models import load as load_model

    draft, draft_tokenizer = load_model(
        args.draft_model,
        trust_remote_code=args.trust_remote_code,
        cpu_weights=args.cpu_weights,
    )
    check_draft_tokenizer(tokenizer, draft_tokenizer)
    return draft

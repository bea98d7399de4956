"""From model flags to a model and a tokenizer."""

from argparse import Namespace
from typing import Any


def load(args: Namespace, *, model: str | None = None, revision: str | None = None) -> Any:
    """Load what the flags name, or `model` where a prompt-cache file names it."""
    import mlxlm_models

    return mlxlm_models.load(
        model or args.model,
        adapter_path=args.adapter_path,
        revision=args.revision or revision,
        trust_remote_code=args.trust_remote_code,
        cpu_weights=args.cpu_weights,
    )

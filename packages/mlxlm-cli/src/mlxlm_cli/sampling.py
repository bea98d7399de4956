"""From sampling flags to a sampler."""

import logging
from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from mlxlm_sample import SamplingOptions

from mlxlm_cli.arguments.parser import flag_of

if TYPE_CHECKING:
    import mlx.core as mx

log = logging.getLogger(__name__)


def make_sampler(args: Namespace, tokenizer: Any) -> "Callable[[mx.array], mx.array]":
    """Return the sampler that the flags ask for, with one warning for idle flags (R04).

    XTC never takes the tokenizer's newline and end tokens away (R06).
    """
    import mlxlm_sample

    names = [field.name for field in fields(SamplingOptions) if hasattr(args, field.name)]
    options = SamplingOptions(**{name: getattr(args, name) for name in names})
    ignored = options.ignored()
    if ignored:
        log.warning("%s", _idle(options, [flag_of(name) for name in ignored]))
    effective = {name: getattr(options, name) for name in names if name not in ignored}
    if options.uses_xtc and not options.greedy:
        effective["xtc_special_tokens"] = mlxlm_sample.xtc_special_tokens(tokenizer)
    return mlxlm_sample.make_sampler(**effective)


def _idle(options: SamplingOptions, flags: list[str]) -> str:
    listed = f"{', '.join(flags)} {'has' if len(flags) == 1 else 'have'} no effect"
    if options.greedy:
        return f"{listed}: --temp 0 always takes the likeliest token; raise it to sample"
    return (
        f"{listed}: --xtc-threshold goes with --xtc-probability, --min-tokens-to-keep with --min-p"
    )

"""`--prompt-cache-file`: what a file says about itself, against what the flags say."""

import logging
from argparse import Namespace
from typing import TYPE_CHECKING

from mlxlm_cli.arguments.parser import flag_of
from mlxlm_cli.errors import CommandError

if TYPE_CHECKING:
    from mlxlm_cache import PromptFile

log = logging.getLogger(__name__)


def open_prompt_cache(args: Namespace) -> "PromptFile":
    """Read the file and state its settings; raise CommandError where the flags disagree.

    R15, R16, R22 and seed 5.3.
    """
    from mlxlm_cache import read_prompt_file

    try:
        file = read_prompt_file(args.prompt_cache_file)
    except FileNotFoundError:
        raise CommandError(
            f"there is no prompt-cache file {args.prompt_cache_file!r}: check the path"
        ) from None
    _check_model(args, file)
    _check_quantization(args, file)
    log.info("%s: %s", args.prompt_cache_file, describe(file))
    return file


def describe(file: "PromptFile") -> str:
    """Return a file's settings in one line."""
    length = len(file.tokens) if file.tokens is not None else file.cache[0].offset
    kept = (
        "keys and values in full precision"
        if file.kv_bits is None
        else f"keys and values in {file.kv_bits} bits, groups of {file.kv_group_size}"
    )
    made_by = f"model {file.model}" if file.model else "no model named"
    return f"{length} tokens, {kept}, {made_by}"


def _check_model(args: Namespace, file: "PromptFile") -> None:
    given = "model" in args.given
    if given and file.model is not None and args.model != file.model:
        raise CommandError(
            f"Providing a different model ({args.model}) than that used to create "
            f"the prompt cache ({file.model}) is an error."
        )
    if not given and file.model is None:
        raise CommandError(
            f"{args.prompt_cache_file} doesn't say which model it was made with; give --model"
        )
    if args.revision is not None and file.revision not in (None, args.revision):
        raise CommandError(
            f"--revision {args.revision} isn't the revision that {args.prompt_cache_file} was "
            f"made with ({file.revision})"
        )


def _check_quantization(args: Namespace, file: "PromptFile") -> None:
    for name in _idle(args, file):
        if name in args.given:
            raise CommandError(f"{flag_of(name)} has no effect on {args.prompt_cache_file}")
    for name in ("kv_bits", "kv_group_size"):
        value = getattr(file, name)
        if name in args.given and file.kv_bits is not None and getattr(args, name) != value:
            raise CommandError(
                f"{flag_of(name)} {getattr(args, name)} differs from {args.prompt_cache_file}, "
                f"whose cache was made with {flag_of(name)} {value}; leave the flag out"
            )


def _idle(args: Namespace, file: "PromptFile") -> tuple[str, ...]:
    """Return the flags that change nothing about the file's cache."""
    if file.kv_bits is not None:
        return ("quantized_kv_start",)
    return ("kv_group_size", "quantized_kv_start") if args.kv_bits is None else ()

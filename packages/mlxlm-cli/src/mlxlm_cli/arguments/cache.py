"""How keys and values are kept."""

from argparse import Namespace

from mlxlm_generate.defaults import GENERATION

from mlxlm_cli.arguments.parser import Parser, flag_of
from mlxlm_cli.arguments.values import integer
from mlxlm_cli.errors import UsageError

_LEAST_SIZE = 5
"""A bounded cache keeps the first four tokens, and has to have room for another."""


def add_cache_flags(parser: Parser) -> None:
    group = parser.add_argument_group("key-value cache")
    group.add_argument(
        "--max-kv-size",
        type=integer(_LEAST_SIZE),
        help="tokens kept at most; older ones are forgotten, all but the first four",
    )
    group.add_argument(
        "--kv-bits", type=int, choices=(2, 3, 4, 5, 6, 8), help="bits per cached number"
    )
    group.add_argument(
        "--kv-group-size",
        type=int,
        choices=(32, 64, 128),
        default=GENERATION.kv_group_size,
        help="numbers that share a scale",
    )
    group.add_argument(
        "--quantized-kv-start",
        type=integer(0),
        default=GENERATION.quantized_kv_start,
        help="tokens after which --kv-bits takes effect",
    )


def check_cache_flags(args: Namespace, *, file: bool = False) -> None:
    """Refuse cache flags that contradict each other or would have no effect.

    With a prompt-cache `file`, its own settings count: the flags are compared with them.
    """
    if args.max_kv_size is not None and file:
        raise UsageError(
            "--max-kv-size has no effect with --prompt-cache-file: the file's cache has its size"
        )
    if args.kv_bits is None and not file:
        for name in ("kv_group_size", "quantized_kv_start"):
            if name in args.given:
                raise UsageError(f"{flag_of(name)} has no effect without --kv-bits")

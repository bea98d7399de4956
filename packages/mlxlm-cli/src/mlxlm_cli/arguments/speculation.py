"""Who guesses tokens ahead, for the model to check."""

from argparse import Namespace

from mlxlm_generate.defaults import GENERATION

from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.values import integer
from mlxlm_cli.errors import UsageError


def add_speculation_flags(parser: Parser) -> None:
    group = parser.add_argument_group("speculation: the same text, sooner")
    group.add_argument(
        "--draft-model", help="a smaller model of the same vocabulary that guesses ahead"
    )
    group.add_argument(
        "--ngram-draft",
        action="store_true",
        help="guess what followed the same words before; needs no second model",
    )
    group.add_argument(
        "--num-draft-tokens",
        type=integer(1),
        default=GENERATION.num_draft_tokens,
        help="tokens guessed at a time, at most",
    )


def check_speculation_flags(args: Namespace) -> None:
    """Refuse two guessers, and a number of guesses without one."""
    if args.draft_model is not None and args.ngram_draft:
        raise UsageError("--draft-model and --ngram-draft both guess ahead: give one of them")
    guessed = args.draft_model is not None or args.ngram_draft
    if "num_draft_tokens" in args.given and not guessed:
        raise UsageError("--num-draft-tokens has no effect without --draft-model or --ngram-draft")

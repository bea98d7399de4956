"""How the next token is drawn. The defaults are mlxlm-sample's (R05)."""

from mlxlm_sample.defaults import SAMPLING

from mlxlm_cli.arguments.parser import Group, Parser
from mlxlm_cli.arguments.values import integer, number


def add_sampling_flags(parser: Parser, *, title: str = "sampling") -> Group:
    group = parser.add_argument_group(title)
    group.add_argument(
        "--temp",
        type=number(0),
        default=SAMPLING.temp,
        help="temperature; 0 takes the likeliest token and needs no other sampling flag",
    )
    group.add_argument(
        "--top-p",
        type=number(0, 1),
        default=SAMPLING.top_p or 1.0,  # both mean off; the command line has always said 1
        help="share of the probability that the tokens kept have; 0 and 1 are off",
    )
    group.add_argument(
        "--min-p",
        type=number(0, 1),
        default=SAMPLING.min_p,
        help="least probability, as a share of the likeliest token's; 0 is off",
    )
    group.add_argument(
        "--top-k", type=integer(0), default=SAMPLING.top_k, help="likeliest tokens kept; 0 is off"
    )
    group.add_argument(
        "--xtc-probability",
        type=number(0, 1),
        default=SAMPLING.xtc_probability,
        help="how often XTC leaves out the likeliest tokens",
    )
    group.add_argument(
        "--xtc-threshold",
        type=number(0, 0.5),
        default=SAMPLING.xtc_threshold,
        help="probability from which XTC may leave a token out",
    )
    group.add_argument(
        "--min-tokens-to-keep",
        type=integer(1),
        default=SAMPLING.min_tokens_to_keep,
        help="tokens that --min-p always keeps",
    )
    return group


def add_seed_flag(group: Group, seed: int | None) -> None:
    group.add_argument(
        "--seed",
        type=integer(0, most=2**64 - 1),
        default=seed,
        help="seed of the random numbers",
    )

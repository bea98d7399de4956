import pytest
from mlxlm_cli.arguments.cache import add_cache_flags, check_cache_flags
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.errors import UsageError


def check(*flags: str, file: bool = False) -> None:
    parser = Parser("tool", "A tool.")
    add_cache_flags(parser)
    check_cache_flags(parser.parse_args(flags), file=file)


def test_R10_a_bounded_cache_may_be_quantized() -> None:
    check("--max-kv-size", "64", "--kv-bits", "4")


@pytest.mark.parametrize("flag", ["--kv-group-size", "--quantized-kv-start"])
def test_a_flag_without_effect_is_refused(flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} has no effect without --kv-bits"):
        check(flag, "64")


def test_a_cache_file_has_its_own_size() -> None:
    with pytest.raises(UsageError, match="--prompt-cache-file"):
        check("--max-kv-size", "64", file=True)


@pytest.mark.parametrize(
    "flags", [(), ("--max-kv-size", "64"), ("--kv-bits", "8", "--kv-group-size", "32")]
)
def test_the_rest_goes(flags: tuple[str, ...]) -> None:
    check(*flags)
    check(*[flag for flag in flags if flag not in ("--max-kv-size", "64")], file=True)

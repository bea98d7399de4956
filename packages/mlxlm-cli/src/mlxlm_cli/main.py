"""`mlx_lm` and `mlxlm`: find the command that is named and hand over."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from mlxlm_cli.commands import COMMANDS, NOT_YET

_USAGE = 2


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run `<prog> [flags] <command> [its arguments]`; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    prog = prog or _prog()
    flags = {"-h": "help", "--help": "help", "--version": "version"}
    flags |= {"-v": "verbose", "--verbose": "verbose"}
    asked = set()
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag not in flags:
            return _usage(prog, f"unknown flag {flag!r}; flags of a command come after its name")
        asked.add(flags[flag])
    if "help" in asked:
        print(_help(prog))
        return 0
    if asked:
        return _version(verbose="verbose" in asked, prog=prog)
    if not words:
        return _usage(prog, f"which command? One of: {', '.join(COMMANDS)}")
    return _dispatch(words[0], words[1:], prog)


def main_of_module(name: str) -> int:
    """Serve `python -m mlx_lm.<name>`, the spelling that is going away (R52)."""
    print(
        f"notice: `python -m mlx_lm.{name}` is an old spelling that will go away; "
        f"write `mlx_lm.{name}` or `python -m mlx_lm {name}`.",
        file=sys.stderr,
    )
    return COMMANDS[name].main(prog=f"mlx_lm.{name}")


def _dispatch(name: str, argv: list[str], prog: str) -> int:
    if name in NOT_YET:
        return _usage(prog, f"the command {name!r} isn't there yet")
    if name not in COMMANDS:
        close = get_close_matches(name, [*COMMANDS, *NOT_YET], n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"try one of: {', '.join(COMMANDS)}"
        return _usage(prog, f"there is no command {name!r}; {hint}")
    return COMMANDS[name].main(argv, prog=f"{prog} {name}")


def _version(*, verbose: bool, prog: str) -> int:
    if verbose:
        return COMMANDS["doctor"].main([], prog=f"{prog} doctor")
    from mlxlm_cli.arguments.version import DISTRIBUTION, own_version

    print(f"{DISTRIBUTION} {own_version()}")
    return 0


def _help(prog: str) -> str:
    rows = [f"  {name:14}{command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {prog} [-h] [--version [-v]] <command> [flags]",
            "",
            "commands:",
            *rows,
            "",
            f"`{prog} <command> --help` shows a command's flags.",
            f"Not there yet: {', '.join(NOT_YET)}.",
        ]
    )


def _prog() -> str:
    name = Path(sys.argv[0]).name
    return "mlx_lm" if name.startswith("__main__") else name


def _usage(prog: str, message: str) -> int:
    print(f"{prog}: error: {message} (see {prog} --help)", file=sys.stderr)
    return _USAGE

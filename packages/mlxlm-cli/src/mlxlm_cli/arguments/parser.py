"""argparse, with one-line errors, defaults in the help, and a record of what was given."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from mlxlm_cli.arguments.version import VersionAction

Group: TypeAlias = argparse._ArgumentGroup


class Parser(argparse.ArgumentParser):
    """A parser whose namespaces carry `given`: the set of dests named on the command line."""

    def __init__(self, prog: str, description: str, *, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog, description=description, epilog=epilog, formatter_class=_Formatter
        )
        for name, action in (
            (None, _Store),
            ("store", _Store),
            ("store_true", _StoreTrue),
            ("append", _Append),
        ):
            self.register("action", name, action)
        self.set_defaults(given=frozenset())
        self.source = ""
        """Where the arguments come from, in front of errors, if not from the command line."""
        self.add_argument(
            "--log-level",
            default="INFO",
            type=str.upper,
            choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
            help="how much is said on stderr; DEBUG shows tracebacks",
        )
        self.add_argument("--version", action=VersionAction, help="print the version and exit")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {self.source}{message} (see {self.prog} --help)\n")


def flag_of(dest: str) -> str:
    """Return the long flag of an attribute: `top_p` is `--top-p`."""
    return f"--{dest.replace('_', '-')}"


def _record(namespace: argparse.Namespace, dest: str) -> None:
    namespace.given = namespace.given | {dest}


class _Store(argparse._StoreAction):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        _record(namespace, self.dest)


class _Append(argparse._AppendAction):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        _record(namespace, self.dest)


class _StoreTrue(argparse._StoreTrueAction):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        _record(namespace, self.dest)


class _Formatter(argparse.HelpFormatter):
    """Adds the default to each flag's help, where there is one to speak of."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help or ""
        default = action.default
        nothing = default is None or default is False or default in ((), "", argparse.SUPPRESS)
        return text if nothing or "%(default)" in text else f"{text} (default: %(default)s)"

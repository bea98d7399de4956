"""`--version`, looked up only when asked for."""

import argparse
from collections.abc import Sequence
from typing import Any

DISTRIBUTION = "mlxlm-cli"


def own_version() -> str:
    from importlib.metadata import version

    return version(DISTRIBUTION)


class VersionAction(argparse.Action):
    """Print `mlxlm-cli <version>` on stdout and leave."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **kwargs)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        print(f"{DISTRIBUTION} {own_version()}")
        parser.exit()

"""`mlx_lm.server`: models over HTTP. Nothing of the server is imported before it starts."""

import os
import sys
import threading
from argparse import Namespace

from mlxlm_cli.arguments.cache import check_cache_flags
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.speculation import check_speculation_flags
from mlxlm_cli.errors import UsageError
from mlxlm_cli.run import OK, run
from mlxlm_cli.server.flags import add_server_flags


def main(argv: list[str] | None = None, prog: str = "mlx_lm.server") -> int:
    return run(build_parser(prog), execute, argv)


def build_parser(prog: str = "mlx_lm.server") -> Parser:
    parser = Parser(prog, "Serve models over HTTP, with OpenAI's API.")
    add_server_flags(parser)
    return parser


def execute(args: Namespace) -> None:
    check_cache_flags(args)
    check_speculation_flags(args)
    if args.pipeline:
        raise UsageError("--pipeline isn't there yet: a server runs on one machine for now")

    from mlxlm_cli.server.settings import settings_of

    settings = settings_of(args)

    from mlxlm_server import serve

    serve(
        settings,
        args.host,
        args.port,
        certificate=args.ssl_certfile,
        key=args.ssl_keyfile,
        patience=args.shutdown_timeout,
    )
    _end()


def _end() -> None:
    """Leave now where a thread still loads or computes: the interpreter would wait for it."""
    if threading.active_count() > 1:
        sys.stderr.flush()
        os._exit(OK)

"""The one place where a command's end becomes an exit code.

0 done, 1 failed (one line on stderr, the traceback with `--log-level DEBUG`), 2 wrong
usage, 130 on Ctrl-C, 141 when whoever read our output went away.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

from mlxlm_cli.arguments.config import apply_config
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.errors import CommandError, UsageError

OK, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141

_PLAIN = (ValueError, OSError, RuntimeError, ImportError)
"""Errors whose message is written for users; others are shown with their type."""


def run(parser: Parser, execute: Callable[[Namespace], None], argv: Sequence[str] | None) -> int:
    """Parse `argv`, prepare the process (log, BLAS) and execute; return the exit code."""
    try:
        args = parser.parse_args(argv)
        apply_config(parser, args)
        _prepare(args)
        execute(args)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as stop:  # argparse has said what there was to say
        return stop.code if isinstance(stop.code, int) else OK
    except UsageError as error:
        return _fail(parser.prog, f"{_line(error)} (see {parser.prog} --help)", USAGE)
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        _log_traceback()
        return _fail(parser.prog, _describe(error), FAILED)
    return OK


def _prepare(args: Namespace) -> None:
    import logging

    from mlxlm_cache.device import preload_blas

    from mlxlm_cli.logs import set_up

    set_up(_log_level(args), getattr(args, "log_format", "plain"))
    if hasattr(sys.stdout, "reconfigure"):  # an emoji must not end a program on a C locale
        sys.stdout.reconfigure(errors="replace")
    blas = preload_blas()
    if blas.notice:
        logging.getLogger(__name__).warning("%s", blas.reason)


def _log_level(args: Namespace) -> str:
    """Return the level asked for; `--verbose false` alone asks for warnings only."""
    quiet = not getattr(args, "verbose", True) and "log_level" not in args.given
    return "WARNING" if quiet else str(args.log_level)


def _describe(error: Exception) -> str:
    if isinstance(error, CommandError):
        return _line(error)
    if isinstance(error, _PLAIN) and not isinstance(error, UnicodeError) and str(error):
        return _line(error)
    return f"{type(error).__name__}: {_line(error)} (--log-level DEBUG shows where)"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _log_traceback() -> None:
    import logging

    logging.getLogger(__name__).debug("traceback of the failure:", exc_info=True)


def _fail(prog: str, message: str, status: int) -> int:
    print(f"{prog}: error: {message}", file=sys.stderr)
    return status


def _silence_stdout() -> None:
    """Point stdout at nothing, or the interpreter complains when it flushes at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)

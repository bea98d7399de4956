"""Where a chat's lines come from: a terminal with editing and history, or a pipe."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlxlm_cli.prompts import from_stdin

log = logging.getLogger(__name__)

PROMPT = ">> "
_REMEMBERED = 1000


class Lines:
    """Lines typed at a terminal, or read from a pipe; `interactive` tells which."""

    def __init__(self) -> None:
        self.interactive = sys.stdin is not None and sys.stdin.isatty()

    def read(self) -> str | None:
        """Return the next line without its end, or None when there are no more.

        Ctrl-D, and Ctrl-C on an empty line, end a terminal's lines; Ctrl-C on a line
        with text throws the text away.
        """
        if not self.interactive:
            line = self._piped()
            return line.rstrip("\r\n") if line else None
        while True:
            try:
                return from_stdin(self._type)
            except EOFError:
                print(file=sys.stderr)
                return None
            except KeyboardInterrupt:
                print(file=sys.stderr)
                if not _typed():
                    return None

    def _piped(self) -> str:
        if sys.stdin is None:
            return ""
        return from_stdin(sys.stdin.readline)

    def _type(self) -> str:
        if sys.stdout.isatty():
            return input(PROMPT)
        # readline would put its prompt into whatever stdout is redirected to.
        print(PROMPT, end="", file=sys.stderr, flush=True)
        return input()


def _typed() -> str:
    """Return what stood on the line when it was interrupted."""
    try:
        import readline
    except ImportError:
        return ""
    return readline.get_line_buffer()


def history_file() -> Path:
    """Return where typed lines are kept: under the XDG state directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    root = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return root / "mlxlm" / "chat_history"


@contextmanager
def history(file: Path) -> Iterator[None]:
    """Give `input()` line editing, and lines of earlier chats to go back to.

    A state directory that can't be read or written costs the history, not the chat. So does
    a link to something that isn't a file, as to /dev/null: it's neither read nor changed.
    """
    try:
        import readline
    except ImportError:  # a Python without it: lines can still be typed
        yield
        return
    from mlxlm_cache import regular_file

    try:
        readline.read_history_file(regular_file(file))
    except OSError as error:
        log.debug("no history read: %s", error)
    try:
        yield
    finally:
        readline.set_history_length(_REMEMBERED)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            kept = regular_file(file)
            readline.write_history_file(kept)
            kept.chmod(0o600)
        except OSError as error:
            log.debug("history not kept: %s", error)

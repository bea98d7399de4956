"""Read a line, answer it, until there are no more lines."""

import sys
from collections.abc import Callable

from mlxlm_cli.chat.conversation import Answer, Conversation
from mlxlm_cli.chat.interrupts import stoppable
from mlxlm_cli.chat.terminal import Lines, history, history_file
from mlxlm_cli.console import prefill_progress, say

HELP = """\
Commands:
- 'q' to leave
- 'r' to forget the conversation and start again
- 'h' to see these commands
Ctrl-C stops an answer; Ctrl-D leaves."""


def talk(conversation: Conversation, *, step: int) -> None:
    """Answer every line on stdout; all else goes to stderr."""
    lines = Lines()
    if not lines.interactive:
        while _turn(conversation, lines, lambda text: _answer(conversation, text, step)):
            pass
        return
    say(HELP)
    with history(history_file()):
        while _turn(conversation, lines, lambda text: _stoppable(conversation, text, step)):
            pass


def _turn(conversation: Conversation, lines: Lines, answer: Callable[[str], Answer]) -> bool:
    """Deal with one line; return whether to go on."""
    line = lines.read()
    if line is None or line.strip() == "q":
        return False
    command = line.strip()
    if command == "r":
        conversation.reset()
        say("The conversation is forgotten.")
    elif command == "h":
        say(HELP)
    elif command:
        given = answer(line)
        print(flush=True)
        if given.finish_reason == "length":
            say("(cut off at --max-tokens)")
    return True


def _answer(conversation: Conversation, text: str, step: int) -> Answer:
    with prefill_progress(step) as progress:
        return conversation.ask(text, _show, progress=progress)


def _stoppable(conversation: Conversation, text: str, step: int) -> Answer:
    try:
        with stoppable() as stop, prefill_progress(step) as progress:
            answer = conversation.ask(text, _show, stop, progress)
    except KeyboardInterrupt:  # the second press, before the answer had stopped
        return Answer("", "interrupted")
    return answer


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

"""What every streaming detokenizer promises."""

from abc import ABC, abstractmethod


class StreamingDetokenizer(ABC):
    """Turns token ids into text as they come.

    All `last_segment`s read, the one after `finalize` included, add up to
    `tokenizer.decode(tokens)`, special tokens included. Text that a later token could still
    change is held back; half a character never comes out.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, ready for another text."""
        self.tokens: list[int] = []
        self._read: list[str] = []
        self._unread: list[str] = []

    @abstractmethod
    def add_token(self, token: int) -> None:
        """Take the next token. Not after `finalize` without a `reset` in between."""

    @abstractmethod
    def finalize(self) -> None:
        """No token follows: release what was held back. A second call changes nothing."""

    @property
    def text(self) -> str:
        """All text so far."""
        self._read = ["".join(self._read)]
        return "".join((*self._read, *self._unread))

    @property
    def last_segment(self) -> str:
        """The text that came since this was last read."""
        segment = "".join(self._unread)
        self._unread.clear()
        if segment:
            self._read.append(segment)
        return segment

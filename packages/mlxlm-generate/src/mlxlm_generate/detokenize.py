"""Streamed text from a tokenizer that can only decode a list."""

import re
from collections.abc import Callable
from os.path import commonprefix
from typing import Any

from mlxlm_generate.protocols import Decoder

_CONTEXT = 8  # tokens decoded again before the new ones: decoders look back a little
_WINDOW = 32

# What a later token may still change: half a character, and a space that the clean-up of
# Hugging Face tokenizers takes out before punctuation ("do n ' t" becomes "don't").
_UNSETTLED = re.compile(r"(?: (?:n ?'?|'[vr]?)?)?\ufffd*\Z")
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>\Z")


class WindowDetokenizer:
    """Decodes the latest tokens again with each new one and gives out what is settled.

    The pieces together equal `decode(tokens)` for every decoder whose text only grows,
    apart from its last character and from clean-up spaces. Byte tokens (`<0xE2>`) wait
    until the run of them ends, since one wrong byte spoils a whole run; a special token
    that has no text does not end it.
    """

    def __init__(self, tokenizer: Decoder) -> None:
        self._decode = tokenizer.decode
        self._name: Callable[[int], Any] | None = getattr(
            tokenizer, "convert_ids_to_tokens", getattr(tokenizer, "id_to_token", None)
        )
        self.reset()

    def reset(self) -> None:
        self.tokens: list[int] = []
        self._pieces: list[str] = []
        self._read = 0  # pieces that `last_segment` has given out
        self._start = 0  # first token of the window
        self._done = ""  # the window's text that is among the pieces
        self._limit = _WINDOW
        self._in_bytes = False

    def add_token(self, token: int, /) -> None:
        self.tokens.append(token)
        if self._is_byte(token) or (self._in_bytes and not self._decode([token])):
            self._in_bytes = True
            return
        self._in_bytes = False
        text = self._decode(self.tokens[self._start :])
        self._give(text[: _settled(text)])
        if len(self.tokens) - self._start >= self._limit and text == self._done:
            self._slide()

    def finalize(self) -> None:
        text = self._decode(self.tokens[self._start :])
        shared = len(commonprefix([text, self._done]))
        self._pieces.append(text[shared:])
        self._done = text

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def last_segment(self) -> str:
        segment = "".join(self._pieces[self._read :])
        self._read = len(self._pieces)
        return segment

    def _give(self, text: str) -> None:
        if len(text) > len(self._done) and text.startswith(self._done):
            self._pieces.append(text[len(self._done) :])
            self._done = text

    def _slide(self) -> None:
        """Shorten the window where what is left decodes to the same text."""
        start = len(self.tokens) - _CONTEXT
        tail = self._decode(self.tokens[start:])
        if tail and self._done.endswith(tail):
            self._start, self._done, self._limit = start, tail, _WINDOW
        else:
            self._limit += _CONTEXT

    def _is_byte(self, token: int) -> bool:
        name = self._name(token) if self._name is not None else None
        return isinstance(name, str) and _BYTE.match(name) is not None


def _settled(text: str) -> int:
    match = _UNSETTLED.search(text)
    return len(text) if match is None else match.start()

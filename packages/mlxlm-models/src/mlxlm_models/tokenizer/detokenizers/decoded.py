"""Detokenizers that ask the tokenizer to decode, for decoders without a faster way."""

import logging
from collections.abc import Callable, Sequence

from .base import StreamingDetokenizer

logger = logging.getLogger(__name__)

Decode = Callable[[Sequence[int]], str]
_PATIENCE = 16
"""Held-back tokens after which a new attempt waits for the wait to grow by an eighth."""


class WindowDetokenizer(StreamingDetokenizer):
    """Decodes a few tokens at a time: those last released as context, and those held back.

    Exact where a token's text depends on its neighbours only (WordPiece, BPE with an
    end-of-word suffix, space-joined words). `has_token` tells which ids the decoder knows:
    one that it drops is no neighbour.
    """

    def __init__(self, decode: Decode, has_token: Callable[[int], bool]) -> None:
        self._decode = decode
        self._has_token = has_token
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._context: list[int] = []
        self._context_text = ""
        self._held: list[int] = []
        self._next_try = 1

    def add_token(self, token: int) -> None:
        self.tokens.append(token)
        if not self._has_token(token):
            return
        self._held.append(token)
        if len(self._held) < self._next_try:
            return
        text = self._decode(self._context + self._held)
        if text.endswith("\ufffd") or not text.startswith(self._context_text):
            waiting = len(self._held)
            self._next_try = waiting + 1 + (waiting // 8 if waiting > _PATIENCE else 0)
            return
        self._release(text)

    def finalize(self) -> None:
        text = self._decode(self._context + self._held)
        if self._held and text.startswith(self._context_text):
            self._release(text)
        sent, whole = self.text, self._decode(self.tokens)
        if not whole.startswith(sent):
            logger.warning("This tokenizer decodes a text and its parts differently.")
        elif len(whole) > len(sent):
            self._unread.append(whole[len(sent) :])

    def _release(self, text: str) -> None:
        if segment := text[len(self._context_text) :]:
            self._unread.append(segment)
        self._context = self._held[-4:]
        self._context_text = self._decode(self._context)
        self._held = []
        self._next_try = 1


class WholeTextDetokenizer(StreamingDetokenizer):
    """For decoders that may rewrite any earlier text: everything comes at `finalize`."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._finished = False

    def add_token(self, token: int) -> None:
        self.tokens.append(token)

    def finalize(self) -> None:
        if not self._finished and (text := self._decode(self.tokens)):
            self._unread.append(text)
        self._finished = True

"""Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM): tokens are runs of bytes, the text is UTF-8."""

import codecs
from collections.abc import Callable

from .base import StreamingDetokenizer


def _alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins: printable Latin-1 is itself, the rest comes after U+00FF."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    standing_in = {chr(0x100 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | standing_in


BYTE_OF_CHARACTER = _alphabet()


class BytePieces(dict[int, bytes]):
    """The bytes of each token id, looked up once. An id without a token has none."""

    def __init__(self, id_to_token: Callable[[int], str | None]) -> None:
        self._id_to_token = id_to_token

    def __missing__(self, token: int) -> bytes:
        piece = self._id_to_token(token)
        if piece is None:
            return b""
        try:
            self[token] = bytes(BYTE_OF_CHARACTER[character] for character in piece)
        except KeyError:  # an added token written in ordinary text
            self[token] = piece.encode()
        return self[token]


class ByteLevelDetokenizer(StreamingDetokenizer):
    """Bytes that no continuation can make valid become U+FFFD at once, others wait."""

    def __init__(self, pieces: BytePieces) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._utf8.reset()

    def add_token(self, token: int) -> None:
        self.tokens.append(token)
        if text := self._utf8.decode(self._pieces[token]):
            self._unread.append(text)

    def finalize(self) -> None:
        if text := self._utf8.decode(b"", final=True):
            self._unread.append(text)

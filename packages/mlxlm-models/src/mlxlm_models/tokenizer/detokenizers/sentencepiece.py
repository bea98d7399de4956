"""SentencePiece vocabularies (Llama 2, Mistral, Gemma): `▁` for a space, `<0xNN>` for a byte."""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

from .base import StreamingDetokenizer

REPLACEMENT = "\ufffd"
_BYTE = re.compile(r"<0x([0-9A-Fa-f+][0-9A-Fa-f])>")


@dataclass(frozen=True)
class SentencePieceRules:
    """How a tokenizer's own decoder makes text of pieces."""

    replacements: tuple[tuple[str, str], ...] = (("▁", " "),)
    byte_fallback: bool = True
    first_piece_drops: str = ""
    """A character left out of the first piece (the `Metaspace` decoder)."""
    strip_character: str = " "
    strip_at_start: int = 0
    """Up to how many of `strip_character` are taken off the start of the text."""


class TextPieces(dict[int, str | int | None]):
    """The text of each token id, or the byte it stands for; None for an id without a token."""

    def __init__(self, id_to_token: Callable[[int], str | None], rules: SentencePieceRules) -> None:
        self._id_to_token = id_to_token
        self.rules = rules

    def __missing__(self, token: int) -> str | int | None:
        piece = self._id_to_token(token)
        if piece is not None:
            self[token] = self.plain(piece)
        return self.get(token)

    def plain(self, piece: str) -> str | int:
        for old, new in self.rules.replacements:
            piece = piece.replace(old, new)
        if self.rules.byte_fallback and (byte := _BYTE.fullmatch(piece)):
            return int(byte[1], 16)
        return piece

    def first(self, token: int) -> str | int | None:
        """`self[token]` for a token that opens the text."""
        piece = self._id_to_token(token)
        if piece is None or not self.rules.first_piece_drops:
            return self[token]
        return self.plain(piece.replace(self.rules.first_piece_drops, ""))


class SentencePieceDetokenizer(StreamingDetokenizer):
    """A run of byte tokens is one unit: text if all of it is UTF-8, else one U+FFFD per byte.

    That is the rule of the `ByteFallback` decoder, so a run is held back until it ends or
    is certainly not UTF-8.
    """

    def __init__(self, pieces: TextPieces) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="strict")
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._at_start = True
        self._to_strip = self._pieces.rules.strip_at_start
        self._run: list[str] = []
        self._run_length = 0
        self._run_is_invalid = False
        self._utf8.reset()

    def add_token(self, token: int) -> None:
        self.tokens.append(token)
        piece = self._pieces.first(token) if self._at_start else self._pieces[token]
        if piece is None:
            return
        self._at_start = False
        if isinstance(piece, int):
            self._add_byte(piece)
            return
        if self._run_length:
            self._flush_run()
        self._emit(piece)

    def finalize(self) -> None:
        self._flush_run()

    def _add_byte(self, byte: int) -> None:
        self._run_length += 1
        if self._run_is_invalid:
            self._emit(REPLACEMENT)
            return
        try:
            self._run.append(self._utf8.decode(bytes((byte,))))
        except UnicodeDecodeError:
            self._run_is_invalid = True
            self._emit(REPLACEMENT * self._run_length)

    def _flush_run(self) -> None:
        if self._run_length and not self._run_is_invalid:
            try:
                self._run.append(self._utf8.decode(b"", final=True))
                self._emit("".join(self._run))
            except UnicodeDecodeError:
                self._emit(REPLACEMENT * self._run_length)
        self._run.clear()
        self._run_length = 0
        self._run_is_invalid = False
        self._utf8.reset()

    def _emit(self, text: str) -> None:
        while self._to_strip and text:
            if text[0] != self._pieces.rules.strip_character:
                self._to_strip = 0
                break
            text = text[1:]
            self._to_strip -= 1
        if text:
            self._unread.append(text)

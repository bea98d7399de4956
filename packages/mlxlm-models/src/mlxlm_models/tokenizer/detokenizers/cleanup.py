"""`clean_up_tokenization_spaces`, for text that comes in pieces."""

from .base import StreamingDetokenizer

CLEANUPS = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
"""What transformers replaces, in its order."""


class StreamingReplace:
    """`str.replace` on text that comes in pieces; holds back what may be half of `old`."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new
        self._starts = tuple(old[:length] for length in range(len(old) - 1, 0, -1))
        self._held = ""

    def add(self, text: str) -> str:
        *done, rest = (self._held + text).split(self._old)
        self._held = next((start for start in self._starts if rest.endswith(start)), "")
        return self._new.join((*done, rest[: len(rest) - len(self._held)]))

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


class CleanedDetokenizer(StreamingDetokenizer):
    """Another detokenizer's text, with spaces before punctuation and contractions removed."""

    def __init__(self, inner: StreamingDetokenizer) -> None:
        self._inner = inner
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._inner.reset()
        self.tokens = self._inner.tokens
        self._steps = [StreamingReplace(old, new) for old, new in CLEANUPS]

    def add_token(self, token: int) -> None:
        self._inner.add_token(token)
        text = self._inner.last_segment
        for step in self._steps:
            text = step.add(text)
        if text:
            self._unread.append(text)

    def finalize(self) -> None:
        self._inner.finalize()
        text = self._inner.last_segment
        for step in self._steps:
            text = step.add(text) + step.finish()
        if text:
            self._unread.append(text)

"""Responses that later requests may refer to, in memory and bounded."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST = 1000
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Kept:
    """A response as it was sent, and the conversation up to its end, instructions left out."""

    reply: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]]


class Stored:
    """The responses used last; those unused for longest are forgotten beyond a bound.

    `most_bytes` bounds their text as JSON.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, tuple[Kept, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, id: str, kept: Kept) -> None:
        """Keep a response under a new id."""
        size = len(json.dumps(kept.reply)) + len(json.dumps(kept.messages))
        self._kept[id] = kept, size
        self._bytes += size
        while self._kept and (len(self._kept) > self._most or self._bytes > self._most_bytes):
            self.drop(next(iter(self._kept)))

    def get(self, id: str) -> Kept | None:
        if id not in self._kept:
            return None
        self._kept.move_to_end(id)
        return self._kept[id][0]

    def drop(self, id: str) -> bool:
        """Forget a response; False where there is none of that id."""
        kept = self._kept.pop(id, None)
        if kept is not None:
            self._bytes -= kept[1]
        return kept is not None

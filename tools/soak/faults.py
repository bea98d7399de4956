"""Faults on purpose: in a row, in a step, in the thread, and one that hangs."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlxlm_generate import BatchGenerator


class Injected(Exception):
    """Nobody's fault."""


class FaultyModel:
    """A model that fails now and then: a step of all rows, or a chunk of a prompt."""

    def __init__(self, model: Any, faults: "Faults") -> None:
        self._model, self._faults = model, faults

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self._faults.strikes("step"):
            raise Injected("in the step")
        return self._model(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class Faults:
    """Draws when a fault strikes, and counts them. `shares` are chances for each kind."""

    def __init__(self, seed: int, shares: dict[str, float], hang: float) -> None:
        self._draw = random.Random(seed)
        self._shares = shares
        self.hang = hang
        self.counts: Counter[str] = Counter()
        self.on = False

    def strikes(self, kind: str) -> bool:
        struck = self.on and self._draw.random() < self._shares.get(kind, 0.0)
        self.counts[kind] += struck
        return struck

    def make_generator(self) -> Callable[..., BatchGenerator]:
        faults = self

        class Faulty(BatchGenerator):
            def __init__(self, model: Any, **options: Any) -> None:
                super().__init__(FaultyModel(model, faults), **options)

            def submit(self, requests: Any) -> list[int]:
                if faults.strikes("row"):
                    requests = [
                        replace(each, logits_processors=[*(each.logits_processors or ()), failing])
                        for each in requests
                    ]
                return super().submit(requests)

            def next(self) -> Any:
                if faults.strikes("thread"):
                    raise Injected("in the engine's thread")
                if faults.strikes("hang"):
                    time.sleep(faults.hang)
                return super().next()

        return Faulty


def failing(tokens: Any, logits: Any) -> Any:
    raise Injected("in a row")

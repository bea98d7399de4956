"""Blocks whose steps of decoding are compiled, on CUDA.

Between two steps only the number of keys changes. What comes before and after a look at them
has the same shapes again, and `mx.compile` keeps its graph: an H200's host builds that of a
step of 32 layers in 1.2 ms instead of 2.1, and the GPU needs 4.
"""

from collections.abc import Iterator
from operator import getitem, is_
from typing import Any
from weakref import ref

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.attention import Attention, FusedAttention
from mlxlm_models.layers.block import DecoderBlock, ParallelBlock, SumNormBlock
from mlxlm_models.tree import modules_of

PATIENCE = 8
"""Steps of one shape before it is compiled: sequences come and go, and tracing costs."""


def compile_steps(model: nn.Module) -> None:
    """Let the blocks of `model` compile their steps."""
    for module in modules_of(model).values():
        if (
            isinstance(module, DecoderBlock)
            and type(module) in (DecoderBlock, ParallelBlock, SumNormBlock)
            and type(module.mixer) in (Attention, FusedAttention)
        ):
            module.fast_step = CompiledStep()


class CompiledStep:
    """Computes one token of each sequence as the block does, in two compiled parts.

    Parameters are constants of the graphs, which are made anew where one was replaced.
    """

    def __init__(self) -> None:
        self._shape: tuple[int, ...] = ()
        self._steps = 0
        self._compiled: set[tuple[int, ...]] = set()
        self._own: dict[Any, Any] = {}
        """What the block held when the graphs were made; then what that held, all the way."""
        self._holders: tuple[Any, ...] = ()
        self._keys: tuple[Any, ...] = ()
        self._parts: tuple[Any, ...] = ()
        self._before: Any = None
        self._after: Any = None

    def fits(self, block: DecoderBlock, x: mx.array) -> bool:
        """Tell whether x (B, L, hidden) is a step, of a shape that came several times."""
        if x.shape[1] != 1 or block.training:
            return False
        if x.shape in self._compiled:
            return True
        if x.shape != self._shape:
            self._shape, self._steps = x.shape, 0
        self._steps += 1
        return self._steps > PATIENCE

    def __call__(
        self, block: DecoderBlock, x: mx.array, mask: Mask, cache: Cache | None
    ) -> mx.array:
        if not self._own or not self._is_current(block):
            self._compile(block)
        self._compiled.add(x.shape)
        mixer: Any = block.mixer
        read, queries, keys, values, *gate = self._before(x)
        found, _ = mixer.look(queries, keys, values, mask, cache)
        y: mx.array = self._after(x, read, found, *gate)
        return y

    def _is_current(self, block: DecoderBlock) -> bool:
        try:
            return all(map(is_, map(block.get, self._own), self._own.values())) and all(
                map(is_, map(getitem, self._holders, self._keys), self._parts)
            )
        except LookupError:
            return False

    def _compile(self, block: DecoderBlock) -> None:
        self._own = dict(_parts(block))
        inner = [item for part in self._own.values() for item in _all_parts(part)]
        self._holders, self._keys, self._parts = zip(*inner, strict=True)
        self._compiled.clear()
        weak = ref(block)  # which holds this: the weights of a model that is let go are freed

        def before(x: mx.array) -> tuple[mx.array, ...]:
            block: Any = weak()
            read = block.opened(x)
            return read, *block.mixer.read(read)

        def after(
            x: mx.array, read: mx.array, found: mx.array, gate: mx.array | None = None
        ) -> mx.array:
            block: Any = weak()
            return block.closed(x, read, block.mixer.write(read, found, gate))  # type: ignore[no-any-return]

        self._before, self._after = mx.compile(before), mx.compile(after)


def _parts(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (key, part) of the modules and arrays held."""
    items = holder.items() if isinstance(holder, dict) else enumerate(holder)
    return ((key, part) for key, part in items if isinstance(part, mx.array | dict | list | tuple))


def _all_parts(holder: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (holder, key, part) of all modules and arrays within."""
    if isinstance(holder, mx.array):
        return
    for key, part in _parts(holder):
        yield holder, key, part
        yield from _all_parts(part)

"""Rows whose keys and values are quantized from now on."""

from mlxlm_cache import Cache, quantize_prompt_cache

from mlxlm_generate.batch.lane import Lane, kind
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.kv import KVQuantization


def is_due(row: Row, how: KVQuantization) -> bool:
    """Tell whether a row that would be alone would be quantized before its next tokens."""
    return not row.quantized and row.fed > 0 and row.seen >= how.start


def quantize(caches: list[Cache], how: KVQuantization) -> None:
    """Quantize a prompt cache, or a batch of them, in place in the list."""
    quantize_prompt_cache(caches, bits=how.bits, group_size=how.group_size, start=how.start)


def switched(lane: Lane, how: KVQuantization) -> Lane | None:
    """Quantize the rows that are due; return them where others stay behind."""
    due = [i for i, row in enumerate(lane.rows) if is_due(row, how)]
    if not due:
        return None
    moved = lane if len(due) == len(lane) else lane.split(due)
    quantize(moved.caches, how)
    moved.kind = kind(moved.caches, moved.batched)
    for row in moved.rows:
        row.quantized = True
    return None if moved is lane else moved

"""Specs of one kind made from those of another."""

from dataclasses import fields
from typing import Any, TypeVar

S = TypeVar("S")


def recast(kind: type[S], spec: Any, **changes: Any) -> S:
    """Return a spec of `kind`, which derives from that of `spec`, with the same fields."""
    return kind(**{f.name: getattr(spec, f.name) for f in fields(spec)} | changes)

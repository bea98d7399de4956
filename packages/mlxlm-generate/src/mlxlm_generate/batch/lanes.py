"""All lanes of an engine."""

from collections.abc import Iterator, Sequence

from mlxlm_generate.batch.lane import Lane
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.batch.switch import switched
from mlxlm_generate.kv import KVQuantization


class Lanes:
    """One lane for each kind of caches, and one for each row whose caches can't be merged."""

    def __init__(self) -> None:
        self._lanes: list[Lane] = []

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._lanes))

    def __bool__(self) -> bool:
        return bool(self._lanes)

    @property
    def rows(self) -> list[Row]:
        return [row for lane in self._lanes for row in lane.rows]

    def place(self, new: Sequence[Lane]) -> None:
        """Let new lanes join those of their kind."""
        groups: dict[object, list[Lane]] = {}
        for lane in new:
            groups.setdefault(id(lane) if lane.kind is None else lane.kind, []).append(lane)
        for kind, (first, *others) in groups.items():
            there = next((lane for lane in self._lanes if lane.kind == kind), None)
            if there is None:
                self._lanes.append(first)
            else:
                others.insert(0, first)
                first = there
            if others:
                first.join(others)

    def quantize(self, how: KVQuantization) -> None:
        """Quantize the rows that are long enough now, and let each join its like."""
        if any(lane.under_way for lane in self._lanes):
            return  # interrupted: the steps end first
        before = [lane.kind for lane in self._lanes]
        moved = [switched(lane, how) for lane in self._lanes]
        if [lane.kind for lane in self._lanes] != before:
            lanes, self._lanes = self._lanes, []
            for lane in lanes:
                self.place([lane])
        self.place([lane for lane in moved if lane is not None])

    def where(self, row: Row) -> tuple[Lane | None, int]:
        """Return the lane of a row and its place there; None where it is in none."""
        for lane in self._lanes:
            if row in lane.rows:
                return lane, lane.rows.index(row)
        return None, 0

    def sweep(self) -> None:
        """Forget lanes without rows."""
        self._lanes = [lane for lane in self._lanes if lane.rows]

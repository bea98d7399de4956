"""Which versions of two packages have to work together.

For each dependency arrow: this tree's dependent on the oldest release of its sibling that it
accepts and on the first of every later minor series, and the dependent's last release on
this tree's sibling.
"""

from dataclasses import dataclass

from tools.release.changes import planned_version
from tools.release.history import SHIPPED, Release, changed_since, differs, releases, sources
from tools.workspace import folder, packages, siblings


@dataclass(frozen=True)
class Pair:
    """A dependent and a sibling, one of them a release and the other this tree's."""

    dependent: str
    sibling: str
    release: Release
    # Says that `tests` of this tree, or of the release, already ran these very files.
    covered: bool

    @property
    def backward(self) -> bool:
        """Tell whether the sibling is the older one."""
        return self.release.package == self.sibling

    def __str__(self) -> str:
        old = f"{self.release.package}@{self.release.version}"
        return f"{self.dependent}+{old}" if self.backward else f"{old}+{self.sibling}"


def backward(dependent: str) -> list[Pair]:
    """Pair this tree's package with older siblings."""
    return [
        Pair(dependent, sibling, release, covered=not changed_since(release))
        for sibling, need in siblings(folder(dependent)).items()
        for release in first_of_minors(
            [r for r in releases(sibling) if r.version in need.specifier]
        )
    ]


def forward(dependent: str) -> list[Pair]:
    """Pair a package's last release with this tree's siblings.

    A sibling whose next version the release doesn't accept is free to break it.
    """
    last = releases(dependent)[-1:]
    return [
        Pair(dependent, sibling, release, covered=_same(release, sibling))
        for release in last
        for sibling, need in siblings(sources(release)).items()
        if planned_version(sibling) in need.specifier
    ]


def first_of_minors(accepted: list[Release]) -> list[Release]:
    """Keep the oldest release of each minor series."""
    oldest: dict[tuple[int, int], Release] = {}
    for release in accepted:
        oldest.setdefault((release.version.major, release.version.minor), release)
    return list(oldest.values())


def oldest_accepted(dependent: str) -> dict[str, Release]:
    """Return the oldest release of each sibling that this tree's package accepts."""
    return {pair.sibling: pair.release for pair in reversed(backward(dependent))}


def all_pairs() -> list[Pair]:
    """Return every pair, of every package."""
    return [pair for package in packages() for pair in backward(package) + forward(package)]


def _same(release: Release, sibling: str) -> bool:
    """Tell whether the dependent, or the sibling since its day, is what this tree holds."""
    dependent_moved = changed_since(release, (*SHIPPED, "tests"))
    return not dependent_moved or not differs(release.commit, sibling)

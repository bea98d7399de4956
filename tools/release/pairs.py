"""Which versions of two packages have to work together.

For each dependency arrow: this tree's dependent on the oldest release of its sibling that it
accepts and on the first of every later minor series, and the dependent's last release on
this tree's siblings, all at once.
"""

from dataclasses import dataclass, replace

from tools.release.changes import planned_version
from tools.release.history import SHIPPED, Release, changed_since, differs, releases, sources
from tools.workspace import folder, packages, siblings


@dataclass(frozen=True)
class Pair:
    """A dependent and a sibling, one of them a release and the other this tree's."""

    dependent: str
    sibling: str
    release: Release
    # Says that `tests`, `lowest` or another pair already runs these very files.
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
    found = []
    for sibling, need in siblings(folder(dependent)).items():
        accepted = [r for r in releases(sibling) if r.version in need.specifier]
        for place, release in enumerate(first_of_minors(accepted)):
            # The oldest is what `lowest` installs, with the same tests.
            covered = place == 0 or not changed_since(release)
            found.append(Pair(dependent, sibling, release, covered))
    return found


def forward(dependent: str) -> list[Pair]:
    """Pair a package's last release with this tree's siblings.

    A sibling whose next version the release doesn't accept is free to break it.
    """
    found: list[Pair] = []
    for release in releases(dependent)[-1:]:
        for sibling, need in siblings(sources(release)).items():
            if planned_version(sibling) in need.specifier:
                pair = Pair(dependent, sibling, release, covered=_same(release, sibling))
                # Where all others are this tree's too, one pair says what each would.
                told = any(_on_this_tree(other) for other in found if not other.covered)
                if told and _on_this_tree(pair):
                    pair = replace(pair, covered=True)
                found.append(pair)
    return found


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


def held_for(pair: Pair) -> dict[str, Release]:
    """Return the packages that come from a release so that this pair can be installed.

    All others are this tree's. One that asks for other versions than the pair gives it, or
    that the pair doesn't accept, comes from its last release that fits.

    Raises ValueError where no versions of the other packages go with the pair.
    """
    others = [name for name in _below(pair.dependent) if name != pair.sibling]
    held = _choose({pair.release.package: pair.release}, others, [pair.dependent, *others])
    if held is None:
        raise ValueError(
            f"{pair}: no versions of {pair.dependent}'s other siblings go with it. "
            f"Accept other versions of {pair.sibling}."
        )
    return held


def _on_this_tree(pair: Pair) -> bool:
    """Tell whether all but the pair's release is this tree's."""
    try:
        return len(held_for(pair)) == 1
    except ValueError:
        return False


def _choose(
    held: dict[str, Release], undecided: list[str], asking: list[str]
) -> dict[str, Release] | None:
    """Take this tree's version of each undecided package, or else its newest that fits."""
    if not undecided:
        return held if all(_satisfied(name, held) for name in asking) else None
    first, *rest = undecided
    choices = [held, *(held | {first: release} for release in reversed(releases(first)))]
    return next((found for each in choices if (found := _choose(each, rest, asking))), None)


def _satisfied(package: str, held: dict[str, Release]) -> bool:
    """Tell whether a package, of this tree or held, gets versions of siblings it accepts."""
    source = sources(held[package]) if package in held else folder(package)
    return all(
        (held[name].version if name in held else planned_version(name)) in need.specifier
        for name, need in siblings(source).items()
    )


def _below(package: str) -> list[str]:
    """Return the workspace packages that one needs, directly or not."""
    found = dict.fromkeys(siblings(folder(package)))
    for name in list(found):
        found.update(dict.fromkeys(_below(name)))
    return list(found)


def _same(release: Release, sibling: str) -> bool:
    """Tell whether the dependent, or the sibling since its day, is what this tree holds."""
    dependent_moved = changed_since(release, (*SHIPPED, "tests"))
    return not dependent_moved or not differs(release.commit, sibling)

"""What changed in a package since its last release, told by fragments, and the next version.

A fragment is a file `packages/X/changes/+slug.KIND.md` of one or a few sentences; towncrier
moves them into the CHANGELOG. The kinds are Keep a Changelog's, and `breaking`.
"""

import re
from enum import IntEnum

from packaging.version import Version

from tools.release.history import releases
from tools.workspace import folder, version

KINDS = ("breaking", "added", "changed", "deprecated", "removed", "fixed", "security")
FRAGMENT = re.compile(r"[^.]+\.(?P<kind>[a-z]+)(\.\d+)?\.md")


class Step(IntEnum):
    """How far a version moves."""

    PATCH = 1
    MINOR = 2
    BREAKING = 3


STEPS = {
    "breaking": Step.BREAKING,
    "removed": Step.BREAKING,
    "added": Step.MINOR,
    "changed": Step.MINOR,
    "deprecated": Step.MINOR,
    "fixed": Step.PATCH,
    "security": Step.PATCH,
}


def fragments(package: str) -> dict[str, str]:
    """Return the kind of each fragment of a package by its file name.

    Raises ValueError for a name that says no kind.
    """
    found = {}
    for file in sorted((folder(package) / "changes").glob("*.md")):
        match = FRAGMENT.fullmatch(file.name)
        if not match or match["kind"] not in KINDS:
            raise ValueError(
                f"{file}: name it +what-it-is.KIND.md, KIND one of {', '.join(KINDS)}."
            )
        found[file.name] = match["kind"]
    return found


def next_version(last: Version, step: Step) -> Version:
    """Return the version after `last`; before 1.0 only a breaking change moves the minor."""
    major, minor, micro = last.release
    if step is Step.BREAKING and major:
        return Version(f"{major + 1}.0.0")
    if step is Step.BREAKING or (step is Step.MINOR and major):
        return Version(f"{major}.{minor + 1}.0")
    return Version(f"{major}.{minor}.{micro + 1}")


def is_breaking(old: Version, new: Version) -> bool:
    """Tell whether a version may break what the older one promised."""
    return new >= next_version(old, Step.BREAKING)


def planned_version(package: str) -> Version:
    """Return the version that this tree's package will be released as."""
    stated = Version(version(package))
    published = releases(package)
    if not published or stated > published[-1].version:
        return stated
    steps = [STEPS[kind] for kind in fragments(package).values()]
    return next_version(published[-1].version, max(steps)) if steps else stated


def unreleased_text(package: str) -> str:
    """Return what the CHANGELOG says under *Unreleased* by hand."""
    text = (folder(package) / "CHANGELOG.md").read_text()
    match = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""

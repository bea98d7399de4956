"""Turn a package's fragments into a release commit's files."""

import re
import subprocess
import sys
from datetime import date

from packaging.version import Version

from tools.release.changes import (
    Step,
    fragments,
    is_breaking,
    next_version,
    planned_version,
    unreleased_text,
)
from tools.release.history import releases
from tools.workspace import ROOT, folder, packages, version

TOWNCRIER = "tools/release/towncrier.toml"


class NothingToRelease(ValueError):
    """The package says of no change."""


def bump(package: str, day: date) -> Version:
    """Write a package's next version and CHANGELOG, and return the version.

    A version that may break raises the range of every dependent in this tree, each with a
    fragment of its own. Committing is left to the caller: that commit is the release.
    """
    published = releases(package)
    if not fragments(package) and not unreleased_text(package):
        raise NothingToRelease(f"{package} has no fragments in {folder(package) / 'changes'}.")
    new = planned_version(package)
    if published and new <= published[-1].version:
        raise NothingToRelease(f"{package} {new} is out already; write a fragment.")
    if str(new) != version(package):
        _run("uv", "version", "--quiet", "--frozen", "--package", package, str(new))
    options = ("--config", TOWNCRIER, "--dir", str(folder(package)), "--yes")
    dated = ("--version", str(new), "--date", day.isoformat(), "--name", package)
    _run(sys.executable, "-m", "towncrier", "build", *options, *dated)
    changelog = folder(package) / "CHANGELOG.md"
    spaced = re.sub(r"^(## .*)\n(?=\S)", r"\1\n\n", changelog.read_text(), flags=re.MULTILINE)
    changelog.write_text(re.sub(r"\n{3,}", "\n\n", spaced))
    if published and is_breaking(published[-1].version, new):
        for dependent in packages():
            raise_range(dependent, package, new)
    _run("uv", "lock", "--quiet")
    return new


def raise_range(dependent: str, sibling: str, new: Version) -> bool:
    """Make a dependent require a sibling's new version, and say so; tell whether it does."""
    file = folder(dependent) / "pyproject.toml"
    before = file.read_text()
    wanted = rf"\g<1>>={new},<{_upper(new)}"
    requirement = rf'("{re.escape(sibling)}(?:\[[^\]]*\])?)>=[\d.]+,<[\d.]+'
    after = re.sub(requirement, wanted, before)
    if after == before:
        return False
    file.write_text(after)
    fragment = folder(dependent) / "changes" / f"+{sibling}.changed.md"
    fragment.parent.mkdir(exist_ok=True)
    fragment.write_text(f"Needs {sibling} {new} or a later one before {_upper(new)}.\n")
    return True


def _upper(version: Version) -> str:
    following = next_version(version, Step.BREAKING)
    return f"{following.major}.{following.minor}" if not following.major else str(following.major)


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)

"""Where each release is in the history.

A release is the first commit whose `packages/X/pyproject.toml` states a version that its
`CHANGELOG.md` dates; a tag `X-vVERSION`, where the clone has it, says so too. Versions of
which only one of the two files speaks are in the making.
"""

import re
import subprocess
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import Version

from tools.workspace import ROOT, git, settle

DATED = re.compile(r"^## \[(\d[^\]]*)\] - \d{4}-\d{2}-\d{2}$", re.MULTILINE)


class NoHistory(RuntimeError):
    """The clone can't say what was released."""


@dataclass(frozen=True)
class Release:
    """A version of a package and the commit that holds it."""

    package: str
    version: Version
    commit: str

    @property
    def tag(self) -> str:
        return f"{self.package}-v{self.version}"


@cache
def require_history() -> None:
    """Raise `NoHistory` where the clone lacks commits."""
    try:
        shallow = git("rev-parse", "--is-shallow-repository").strip() == b"true"
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistory(
            "Releases are read from git's history and this folder has none: clone the repository."
        ) from error
    if shallow:
        raise NoHistory(
            "Releases are read from git's history and this clone is shallow: git fetch --unshallow"
        )


@cache
def releases(package: str) -> list[Release]:
    """Return a package's releases, oldest first.

    Raises `NoHistory` where they can't be known: no repository, a shallow one, or a dated
    version in the CHANGELOG that no commit holds.
    """
    require_history()
    found = _from_commits(package) | _from_tags(package)
    changelog = ROOT / "packages" / package / "CHANGELOG.md"
    missing = sorted(set(_dated(changelog.read_text())) - set(found))
    if missing:
        raise NoHistory(
            f"{changelog} dates {', '.join(map(str, missing))}, which no commit states: "
            "commit the release, or take the date back."
        )
    return [Release(package, version, found[version]) for version in sorted(found)]


SHIPPED = ("src", "pyproject.toml")


def changed_since(release: Release, parts: Sequence[str] = SHIPPED) -> bool:
    """Tell whether parts of a package's folder differ in this tree from a release."""
    return differs(release.commit, release.package, parts)


def differs(commit: str, package: str, parts: Sequence[str] = SHIPPED) -> bool:
    """Tell whether parts of a package's folder differ in this tree from a commit."""
    paths = [f"packages/{package}/{part}" for part in parts]
    tracked = git("diff", "--name-only", commit, "--", *paths)
    return bool(tracked or git("ls-files", "--others", "--exclude-standard", "--", *paths))


def sources(release: Release) -> Path:
    """Return a release's folder, unpacked below `build`."""
    target = ROOT / "build" / "releases" / release.commit[:12] / release.package
    if not target.exists():
        archive = git("archive", "--format=tar", f"{release.commit}:packages/{release.package}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / release.package
            with tarfile.open(fileobj=BytesIO(archive)) as files:
                files.extractall(made, filter="data")
            settle(made, target)
    return target


def _from_commits(package: str) -> dict[Version, str]:
    files = [f"packages/{package}/{name}" for name in ("pyproject.toml", "CHANGELOG.md")]
    # `-m` also looks into merges; what a merge repeats was found on its branch before.
    log = ("log", "--topo-order", "--reverse", "--full-history", "-m", "--format=%H")
    found: dict[Version, str] = {}
    for commit in git(*log, "-G", r"^(version = |## \[[0-9])", "--", *files).decode().split():
        try:
            project, changelog = (git("show", f"{commit}:{file}").decode() for file in files)
        except subprocess.CalledProcessError:
            continue  # one of the two isn't there yet, or not any more
        version = Version(tomllib.loads(project)["project"]["version"])
        if version in _dated(changelog):
            found.setdefault(version, commit)
    return found


def _from_tags(package: str) -> dict[Version, str]:
    prefix = f"{package}-v"
    tags = git("tag", "--list", f"{prefix}[0-9]*").decode().split()
    return {
        Version(tag.removeprefix(prefix)): git("rev-parse", f"{tag}^{{commit}}").decode().strip()
        for tag in tags
    }


def _dated(changelog: str) -> list[Version]:
    return list(map(Version, DATED.findall(changelog)))

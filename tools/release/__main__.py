"""Say what a release needs, make one, and build what is uploaded.

uv run --group release python -m tools.release changed
uv run --group release python -m tools.release bump mlxlm-cache
uv run --group release python -m tools.release tag mlxlm-cache
uv run --group release python -m tools.release build mlxlm-cache --out dist
"""

import argparse
import subprocess
from datetime import date
from pathlib import Path
from shutil import rmtree

from tools.release import artifacts
from tools.release.bump import NothingToRelease, bump
from tools.release.changes import fragments, planned_version, unreleased_text
from tools.release.history import NoHistory, changed_since, releases
from tools.release.wheelhouse import wheel
from tools.workspace import git, packages


def changed() -> None:
    """List every package: its last release, its fragments, and the version they add up to."""
    for package in packages():
        last = next(reversed(releases(package)), None)
        kinds = ", ".join(sorted(fragments(package).values())) or "none"
        state = "never released" if last is None else f"{last.version} ({last.commit[:9]})"
        moved = "changed" if last is None or changed_since(last) else "unchanged"
        print(f"{package}: {state}, {moved}; fragments: {kinds}; next: {planned_version(package)}")


def check() -> None:
    """Rebuild every release, and refuse a change that no fragment tells of."""
    silent = []
    count = 0
    for package in packages():
        for release in releases(package):
            print(f"{release.tag} {release.commit[:9]} {wheel(package, release).name}")
            count += 1
        last = next(reversed(releases(package)), None)
        if last and unreleased_text(package):
            silent.append(f"{package}: text under Unreleased; make it a fragment in changes/.")
        if last and changed_since(last) and planned_version(package) == last.version:
            silent.append(
                f"{package} changed since {last.version}: "
                f"towncrier create --config tools/release/towncrier.toml "
                f"--dir packages/{package} +what-it-is.KIND.md"
            )
    if silent:
        raise SystemExit("\n".join(silent))
    print(f"{count} releases rebuilt" if count else "Nothing has been released yet.")


def tag(package: str) -> None:
    """Tag a package's last release."""
    if not releases(package):
        raise SystemExit(f"{package} has no release; see bump.")
    last = releases(package)[-1]
    git("tag", "--annotate", "--message", f"{package} {last.version}", last.tag, last.commit)
    print(last.tag)


def build(names: list[str], out: Path) -> None:
    """Build what is uploaded of some packages, or of all."""
    rmtree(out, ignore_errors=True)
    for package in names or packages():
        for file in artifacts.build(package, out):
            print(file)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("changed", help="what changed since the last releases")
    commands.add_parser("check", help="rebuild every release; every change has a fragment")
    bumping = commands.add_parser("bump", help="write the next version and CHANGELOG")
    bumping.add_argument("package", choices=packages())
    bumping.add_argument("--date", type=date.fromisoformat, default=date.today())
    commands.add_parser("tag", help="tag the last release").add_argument("package")
    building = commands.add_parser("build", help="sdist, wheel, SBOM and hashes")
    building.add_argument("packages", nargs="*")
    building.add_argument("--out", type=Path, default=Path("dist"))
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "changed":
                changed()
            case "check":
                check()
            case "bump":
                new = bump(arguments.package, arguments.date)
                print(f'git add --all && git commit -m "Release {arguments.package} {new}"')
            case "tag":
                tag(arguments.package)
            case "build":
                build(arguments.packages, arguments.out)
    except (NoHistory, NothingToRelease, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"error: {error}\n{(error.stderr or b'').decode()}") from error


if __name__ == "__main__":
    main()

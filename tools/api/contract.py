"""The committed list of public names, `packages/X/api.txt`, and what breaks it."""

import re
from pathlib import Path

import griffe

from tools.api.surface import describe, load
from tools.release.changes import is_breaking, planned_version
from tools.release.history import NoHistory, releases, sources
from tools.workspace import folder, modules, packages

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HEADER = "# Public names. After a change: uv run --group api python -m tools.api write\n"


def contract_file(source: Path) -> Path:
    return source / "api.txt"


def listed_modules(source: Path) -> list[str]:
    """Return the public modules: those a contract has, or the top-level ones."""
    file = contract_file(source)
    lines = file.read_text().splitlines() if file.exists() else []
    return [line[1:-1] for line in lines if line.startswith("[")] or modules(source)


def render(source: Path) -> str:
    """Return the contract that a distribution's source amounts to."""
    surface = load(source, listed_modules(source), _others(source))
    parts = [HEADER]
    for name, module in surface.items():
        parts.append(f"\n[{name}]\n" + "".join(f"{line}\n" for line in describe(module)))
    return "".join(parts)


def differences(package: str) -> list[str]:
    """Return the lines in which the committed contract differs from the source."""
    file = contract_file(folder(package))
    committed = file.read_text().splitlines() if file.exists() else []
    actual = render(folder(package)).splitlines()
    gone = [f"- {line}" for line in committed if line not in actual]
    return gone + [f"+ {line}" for line in actual if line not in committed]


def breaks(package: str) -> list[str]:
    """Return what this tree breaks of the last release, unless its next version may."""
    published = releases(package)
    if not published or is_breaking(published[-1].version, planned_version(package)):
        return []
    old_source = sources(published[-1])
    names = listed_modules(old_source)
    before = load(old_source, names, _others(folder(package)))
    try:
        after = load(folder(package), names, _others(folder(package)))
    except KeyError as error:
        return [f"module {error} was removed"]
    style = griffe.ExplanationStyle.ONE_LINE
    found = [f"{name}.{gone} was removed" for name in names for gone in _gone(before, after, name)]
    for name in names:
        for change in griffe.find_breaking_changes(before[name], after[name]):
            found.append(COLOUR.sub("", change.explain(style=style)))
    return found


def check() -> list[str]:
    """Return everything that is wrong with any package's contract."""
    wrong = []
    for package in packages():
        changed = differences(package)
        if changed:
            wrong.append(f"{package}: api.txt is not what the source says\n" + "\n".join(changed))
        try:
            broken = breaks(package)
        except NoHistory as error:
            wrong.append(f"{package}: {error}")
            continue
        if broken:
            last = releases(package)[-1].version
            wrong.append(
                f"{package} breaks {last} and would be released as {planned_version(package)}; "
                "keep the name, or add a fragment `breaking`\n" + "\n".join(broken)
            )
    return wrong


def _gone(
    before: dict[str, griffe.Module], after: dict[str, griffe.Module], name: str
) -> list[str]:
    """Names that only `__all__` knows: griffe compares those it can see."""
    unseen = set(map(str, before[name].exports or [])) - set(before[name].members)
    return sorted(unseen - set(map(str, after[name].exports or [])))


def _others(source: Path) -> list[Path]:
    return [folder(name) for name in packages() if name != source.name]

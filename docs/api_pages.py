"""A mkdocs hook: one page per package, of the names in its API contract."""

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.api.contract import listed_modules
from tools.api.surface import load
from tools.workspace import configuration, folder, packages


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages; mkdocstrings fills in what each name's docstring says."""
    for package in packages():
        files.append(File.generated(config, f"api/{package}.md", content=page(package)))
    return files


def page(package: str) -> str:
    """Return a package's page: its description and a directive per public name."""
    source = folder(package)
    others = [folder(name) for name in packages() if name != package]
    lines = [f"# {package}", "", configuration(source)["project"]["description"], ""]
    for module, surface in load(source, listed_modules(source), others).items():
        lines += [f"## `{module}`", ""]
        for name, member in surface.members.items():
            home = member.final_target.package.name
            if home == module.partition(".")[0]:
                lines += [f"::: {member.final_target.path}", ""]
            else:
                lines += [f"- `{name}` is `{home}.{member.final_target.name}`.", ""]
    return "\n".join(lines)

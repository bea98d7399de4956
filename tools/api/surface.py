"""Read a package's public names from its source, without importing it.

Public is what a module lists: its `__all__`, or else the names that it defines, or imports for
type checkers from the workspace, without an underscore.
"""

from collections.abc import Iterator
from pathlib import Path

import griffe

from tools.workspace import modules

Member = griffe.Object | griffe.Alias


def load(source: Path, wanted: list[str], others: list[Path]) -> dict[str, griffe.Module]:
    """Return modules of one distribution, each reduced to its public names.

    `others` are the folders of its siblings, whose classes it may extend.
    """
    folders = [source, *others]
    loader = griffe.GriffeLoader(search_paths=[str(folder / "src") for folder in folders])
    roots = {root for folder in folders for root in modules(folder)}
    for root in sorted(roots):
        loader.load(root)
    loader.resolve_aliases(implicit=True)
    known = loader.modules_collection
    return {name: _public(known[name], known, roots) for name in wanted}


def describe(module: griffe.Module) -> Iterator[str]:
    """Yield a line for each public name of a module, and for each name inside its classes."""
    for name in sorted(map(str, module.exports or [])):
        if name not in module.members:
            yield name  # made when asked for: a version, say
            continue
        target = _target(module.members[name])
        home = target.package.name
        if home != module.name.partition(".")[0]:
            yield f"{name} = {home}.{target.name}"  # wherever in there its file is
        elif isinstance(target, griffe.Class):
            bases = ", ".join(str(base) for base in target.bases)
            yield f"{name}: class({bases})"
            yield from _describe_class(name, target)
        elif isinstance(target, griffe.Function):
            yield from _signatures(name, target)
        elif isinstance(target, griffe.Attribute):
            yield f"{name}: {target.annotation or target.value}"
        else:
            yield f"{name}: {target.kind.value}"


def _public(
    module: griffe.Module, known: griffe.ModulesCollection, roots: set[str]
) -> griffe.Module:
    found = griffe.Module(module.path)
    listed = module.exports
    names = sorted(map(str, listed)) if listed is not None else list(_unlisted(module, roots))
    for name in names:
        if name in module.members:
            try:
                member = module.members[name]
                if member.is_module and name in module.imports:
                    # An import hides a submodule of the same name; griffe keeps the latter.
                    member = known[module.imports[name]]
                target = _target(member)
            except griffe.AliasResolutionError as error:
                raise LookupError(
                    f"{module.path} lists {name}, which isn't in the source: {error}"
                ) from error
            found.set_member(name, griffe.Alias(name, target, parent=found))
    found.exports = list(names)
    return found


def _unlisted(module: griffe.Module, roots: set[str]) -> Iterator[str]:
    for name, member in sorted(module.members.items()):
        if isinstance(member, griffe.Alias):
            # What runs at import is machinery; what only type checkers see is exported.
            ours = not member.runtime and member.target_path.partition(".")[0] in roots
        else:
            ours = not member.is_module
        if ours and not name.startswith("_"):
            yield name


def _target(member: Member) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _describe_class(name: str, owner: griffe.Class) -> Iterator[str]:
    for key, member in sorted(owner.all_members.items()):
        if key.startswith("_") and not key.startswith("__"):
            continue
        target = _target(member)
        if isinstance(target, griffe.Function):
            yield from _signatures(f"{name}.{key}", target)
        elif isinstance(target, griffe.Attribute) and not key.startswith("__"):
            kind = " (property)" if "property" in target.labels else ""
            kind = " (property, settable)" if "writable" in target.labels else kind
            yield f"{name}.{key}: {target.annotation or 'inferred'}{kind}"


def _signatures(name: str, function: griffe.Function) -> Iterator[str]:
    for variant in function.overloads or [function]:
        kind = next((k for k in ("classmethod", "staticmethod") if k in function.labels), "")
        signature = variant.signature(name=name)
        yield f"{kind} {signature}".lstrip()

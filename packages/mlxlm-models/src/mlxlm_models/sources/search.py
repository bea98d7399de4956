"""From the name a user gives to files on this machine."""

from pathlib import Path

from mlxlm_models.errors import SourceError
from mlxlm_models.sources.base import Source, is_gguf
from mlxlm_models.sources.hub import download
from mlxlm_models.sources.package import PREFIX, find_in_package


def resolve(name: str | Path, revision: str | None = None) -> Source:
    """Find the model `name`, downloading it where it is a hub id that isn't cached.

    In this order: `package:<import name>`, an existing directory or `.gguf` file, a hub
    id. `revision` (branch, tag or commit) belongs to hub ids; elsewhere it is an error.
    Raises SourceError.
    """
    text = str(name)
    if not text:
        raise SourceError("The name of the model is empty: there is no directory or hub id ''.")
    if text.startswith(PREFIX):
        _refuse_revision(text, revision)
        return Source(text, "package", find_in_package(text.removeprefix(PREFIX)))
    path = Path(text).expanduser()
    if path.is_dir():
        _refuse_revision(text, revision)
        return Source(text, "directory", path)
    if path.is_file():
        _refuse_revision(text, revision)
        if not is_gguf(path):
            raise SourceError(
                f"{text!r} is a file, but not a .gguf one: give the model's directory."
            )
        return Source(text, "gguf", path)
    if is_gguf(path):
        raise SourceError(f"There is no file {text!r}: check the path.")
    if isinstance(name, Path) or _looks_like_a_path(text):
        raise SourceError(
            f"There is no directory {text!r}: check the path, or give a hub id (owner/name)."
        )
    return Source(text, "hub", download(text, revision), revision)


def _looks_like_a_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def _refuse_revision(name: str, revision: str | None) -> None:
    if revision is not None:
        raise SourceError(
            f"revision={revision!r} was given, but {name!r} is on this machine: "
            "only hub ids have revisions, drop it."
        )

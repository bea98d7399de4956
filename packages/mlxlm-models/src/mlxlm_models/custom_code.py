"""Architectures that a checkpoint brings as its own Python file (`model_file`).

Running it is running a stranger's program, so it takes `trust_remote_code` (CVE-2026-5843).
"""

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import mlx.nn as nn

from mlxlm_models.errors import RemoteCodeError


def build_custom(
    directory: Path, model_file: object, config: Mapping[str, Any], trust_remote_code: bool
) -> nn.Module:
    """Build `Model(ModelArgs.from_dict(config))` of the file `model_file` in `directory`.

    Raises RemoteCodeError where it isn't trusted, is outside the directory or has no such
    classes.
    """
    if not trust_remote_code:
        raise RemoteCodeError(
            f"The model at {directory} requires importing and running a custom module "
            f"({model_file!r}) to build its architecture. This is disabled by default. "
            "Pass trust_remote_code=True if you trust this model."
        )
    file = _locate(directory, model_file)
    module = _execute(file)
    for name in ("Model", "ModelArgs"):
        if not hasattr(module, name):
            raise RemoteCodeError(f"{file} defines no class {name!r}.")
    model = module.Model(module.ModelArgs.from_dict(dict(config)))
    if not isinstance(model, nn.Module):
        raise RemoteCodeError(f"Model in {file} is not an mlx.nn.Module.")
    return model


def _locate(directory: Path, model_file: object) -> Path:
    """Return the file, symbolic links resolved.

    A hub cache keeps files as links to `blobs` beside the snapshots of the same model;
    those are inside, too.
    """
    if not isinstance(model_file, str):
        raise RemoteCodeError(f"model_file in the config of {directory} is not a file name.")
    root = directory.resolve()
    path = root / model_file
    lexical = Path(model_file)
    target = path.resolve()
    inside = target.is_relative_to(root) or target.parent == _blobs(root)
    if lexical.is_absolute() or ".." in lexical.parts or not inside:
        raise RemoteCodeError(f"model_file {model_file!r} leads out of {directory}: it is not run.")
    if not target.is_file():
        raise RemoteCodeError(f"{directory} has no file {model_file!r}, which its config names.")
    return path


def _blobs(root: Path) -> Path | None:
    """Return the blob folder of a snapshot `models--*/snapshots/<commit>`."""
    if root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--"):
        return root.parent.parent / "blobs"
    return None


def _execute(path: Path) -> ModuleType:
    # Registered while it runs: dataclasses look their module up there.
    name = f"mlxlm_custom_{path.stem}_{abs(hash(path))}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RemoteCodeError(f"{path} is not a Python file.")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module

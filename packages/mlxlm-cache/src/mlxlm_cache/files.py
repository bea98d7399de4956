"""Prompt-cache files: a cache and what it is a cache of. mlx-lm reads and writes them too."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, overload

from mlxlm_cache import tensorfile
from mlxlm_cache.base import Cache, leaves
from mlxlm_cache.errors import PromptFileError, UnknownCache
from mlxlm_cache.layout import Layer, flatten, unflatten
from mlxlm_cache.registry import cache_class, cache_name

_OWN = "mlxlm."
"""Metadata keys that start so are ours; mlx-lm passes them through as the user's."""


@dataclass(frozen=True)
class PromptFile:
    """What a prompt-cache file holds. A field is None where the file says nothing of it.

    `tokens` are the ids the cache has seen; `versions` maps the distributions that wrote
    the file to their versions; `kv_bits` and `kv_group_size` are those of quantized layers.
    """

    cache: list[Cache]
    metadata: dict[str, str]
    tokens: list[int] | None
    model: str | None
    revision: str | None
    versions: dict[str, str] | None
    kv_bits: int | None
    kv_group_size: int | None


def save_prompt_cache(
    file_name: str | os.PathLike[str],
    cache: Sequence[Cache],
    metadata: Mapping[str, str] | None = None,
    *,
    tokens: Sequence[int] | None = None,
    model: str | None = None,
    revision: str | None = None,
) -> None:
    """Write a safetensors file that `load_prompt_cache` and mlx-lm can read.

    Only what is in use is written, not the spare room. `tokens` are the ids that the
    cache has seen. The file appears whole or not at all; a link stays one. Raises
    UnknownCache for a class that could not be loaded again, PromptFileError for metadata
    that is not strings or tokens that are not as many as the cache has seen, NotAFile for
    a folder, a device, a pipe or a socket.
    """
    path = Path(file_name)
    made = draft_prompt_file(path, cache, metadata, tokens=tokens, model=model, revision=revision)
    made.write(path, direct=True)


def draft_prompt_file(
    path: Path,
    cache: Sequence[Cache],
    metadata: Mapping[str, str] | None = None,
    *,
    tokens: Sequence[int] | None = None,
    model: str | None = None,
    revision: str | None = None,
) -> tensorfile.Draft:
    """Return what `save_prompt_cache` writes; errors name `path`."""
    facts = _checked(path, metadata or {})
    if tokens is not None:
        _check_tokens(path, tokens, cache)
        facts[f"{_OWN}tokens"] = ",".join(map(str, tokens))
    if model is not None:
        facts[f"{_OWN}model"] = model
    if revision is not None:
        facts[f"{_OWN}revision"] = revision
    written_by = {name: version(name) for name in ("mlxlm-cache", "mlx")}
    facts[f"{_OWN}versions"] = json.dumps(written_by)
    for leaf in leaves(cache):
        cache_name(type(leaf))
    layers = [Layer(cache_name(type(c)), c.state, c.meta_state) for c in cache]
    return tensorfile.draft(*flatten(layers, facts))


@overload
def load_prompt_cache(
    file_name: str | os.PathLike[str], return_metadata: Literal[False] = False
) -> list[Cache]: ...
@overload
def load_prompt_cache(
    file_name: str | os.PathLike[str], return_metadata: Literal[True]
) -> tuple[list[Cache], dict[str, str]]: ...
@overload
def load_prompt_cache(
    file_name: str | os.PathLike[str], return_metadata: bool
) -> list[Cache] | tuple[list[Cache], dict[str, str]]: ...
def load_prompt_cache(
    file_name: str | os.PathLike[str], return_metadata: bool = False
) -> list[Cache] | tuple[list[Cache], dict[str, str]]:
    """Return the cache of a file, and with `return_metadata` what its writer added."""
    file = read_prompt_file(file_name)
    return (file.cache, file.metadata) if return_metadata else file.cache


def read_prompt_file(file_name: str | os.PathLike[str]) -> PromptFile:
    """Read all that a file says. The model may be named by mlx-lm's key, "model".

    Keys and values are read when they are first used. Raises FileNotFoundError; NotAFile;
    PromptFileError for a file that is cut off, damaged, changed or something else;
    UnknownCache for a class that is not registered here.
    """
    path = Path(file_name)
    try:
        layers, facts = unflatten(*tensorfile.read(path))
        own = {k.removeprefix(_OWN): v for k, v in facts.items() if k.startswith(_OWN)}
        metadata = {k: v for k, v in facts.items() if not k.startswith(_OWN)}
        tokens = [int(t) for t in own["tokens"].split(",") if t] if "tokens" in own else None
        versions = json.loads(own["versions"]) if "versions" in own else None
        classes = [cache_class(layer.class_name) for layer in layers]
        cache = [
            cls.from_state(layer.state, layer.meta_state)
            for cls, layer in zip(classes, layers, strict=True)
        ]
    except UnknownCache as error:
        raise UnknownCache(f"{path}: {error}") from error
    except PromptFileError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise PromptFileError(f"{path} is not a prompt-cache file: {error}") from error
    if tokens is not None:
        _check_tokens(path, tokens, cache)
    bits, group_size = _settings(cache)
    return PromptFile(
        cache=cache,
        metadata=metadata,
        tokens=tokens,
        model=own.get("model", metadata.get("model")),
        revision=own.get("revision"),
        versions=versions,
        kv_bits=bits,
        kv_group_size=group_size,
    )


def _settings(cache: Sequence[Cache]) -> tuple[int | None, int | None]:
    """Return bits and group size of the first quantized layer."""
    for c in leaves(cache):
        bits, group_size = getattr(c, "bits", None), getattr(c, "group_size", None)
        if bits is not None and group_size is not None:
            return bits, group_size
    return None, None


def _checked(path: Path, metadata: Mapping[str, str]) -> dict[str, str]:
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise PromptFileError(
                f"{path} was not written: metadata must be strings, "
                f"but metadata[{key!r}] is {value!r}; encode it, as with json.dumps"
            )
        if key.startswith(_OWN):
            raise PromptFileError(
                f"{path} was not written: metadata keys that start with {_OWN!r} are "
                f"reserved, and {key!r} is one"
            )
    return dict(metadata)


def _check_tokens(path: Path, tokens: Sequence[int], cache: Sequence[Cache]) -> None:
    seen = max((c.tokens_seen for c in cache), default=0)
    if len(tokens) != seen:
        raise PromptFileError(f"{path}: {len(tokens)} tokens, but the cache has seen {seen}")

"""Model snapshots of the Hugging Face hub, or of ModelScope."""

import os
from collections.abc import Callable
from pathlib import Path

from mlxlm_models.errors import SourceError

MODELSCOPE = "MLXLM_USE_MODELSCOPE"
"""Environment variable: `true` downloads from ModelScope."""

ALLOW_PATTERNS = (
    "*.json",
    "model*.safetensors",
    "*.py",
    "tokenizer.model",
    "*.tiktoken",
    "tiktoken.model",
    "*.txt",
    "*.jsonl",
    "*.jinja",
)
"""What is downloaded: never other formats of the same weights."""


def download(repo: str, revision: str | None = None) -> Path:
    """Return the local snapshot of `repo`, fetching what the cache lacks.

    With HF_HUB_OFFLINE, or no network, a cached snapshot is enough.
    """
    if os.environ.get(MODELSCOPE, "").lower() in ("true", "1", "yes", "on"):
        return _from_modelscope(repo, revision)
    return _from_hugging_face(repo, revision)


def _from_hugging_face(repo: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    at = f" at revision {revision!r}" if revision else ""
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(ALLOW_PATTERNS)))
    except HFValidationError as error:
        raise SourceError(
            f"{repo!r} is neither a directory here nor a hub id (owner/name): check it."
        ) from error
    except GatedRepoError as error:
        raise SourceError(
            f"{repo!r} is gated: accept its terms on the hub, then `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise SourceError(f"{repo!r} has no revision {revision!r} on the hub.") from error
    except RepositoryNotFoundError as error:
        raise SourceError(
            f"There is no directory {repo!r} here and no such model on the hub: check the name; "
            "for a private one, `hf auth login`."
        ) from error
    except LocalEntryNotFoundError as error:
        raise SourceError(
            f"{repo!r}{at} is not (or not all) in the local cache and {_why_unreachable()}: "
            "go online, or give a local directory, a .gguf file or package:<import name>."
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise SourceError(
            f"{repo!r}{at} could not be downloaded ({_first_line(error)}): try again, "
            "or give a local directory."
        ) from error


def _why_unreachable() -> str:
    from huggingface_hub.constants import is_offline_mode

    return "HF_HUB_OFFLINE is set" if is_offline_mode() else "the hub cannot be reached"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _from_modelscope(repo: str, revision: str | None) -> Path:
    try:
        fetch = _modelscope_download()
    except ImportError as error:
        raise SourceError(f"{MODELSCOPE} is set: `pip install modelscope`, or unset it.") from error
    try:
        return Path(fetch(repo, revision=revision, allow_patterns=list(ALLOW_PATTERNS)))
    except (OSError, ValueError, RuntimeError) as error:
        raise SourceError(
            f"{repo!r} could not be downloaded from ModelScope ({_first_line(error)}): "
            f"check the name, or unset {MODELSCOPE}."
        ) from error


def _modelscope_download() -> Callable[..., str]:
    from modelscope import snapshot_download  # type: ignore[import-not-found, unused-ignore]

    return snapshot_download  # type: ignore[no-any-return, unused-ignore]

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest
from huggingface_hub import errors
from mlxlm_models.errors import SourceError
from mlxlm_models.sources import resolve
from mlxlm_models.sources.hub import ALLOW_PATTERNS, MODELSCOPE

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and HF_HUB_OFFLINE set."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def test_cached_snapshot_works_offline(offline: Path) -> None:
    repo = offline / "models--owner--name"
    snapshot = repo / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    source = resolve("owner/name")
    assert (source.kind, source.path) == ("hub", snapshot)
    assert resolve("owner/name", COMMIT).path == snapshot


def test_offline_and_not_cached(offline: Path) -> None:
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE is set") as error:
        resolve("owner/name", "v1")
    assert "'owner/name' at revision 'v1'" in str(error.value)
    assert "\n" not in str(error.value)
    assert isinstance(error.value.__cause__, errors.LocalEntryNotFoundError)
    assert not list(offline.iterdir())


def test_name_that_is_no_hub_id(offline: Path) -> None:
    with pytest.raises(SourceError, match="neither a directory here nor a hub id"):
        resolve("not a model")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], dict[str, Any]]:
    """Make the hub raise or return something; gives the keywords it is called with."""

    def answer(result: Any) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def snapshot_download(repo: str, **keywords: Any) -> Any:
            seen.update(keywords, repo=repo)
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        return seen

    return answer


def http_error(kind: type[errors.HfHubHTTPError]) -> errors.HfHubHTTPError:
    # Its constructor wants a response of the HTTP library of the day.
    error = kind.__new__(kind)
    OSError.__init__(error, "no\nsuch thing")
    return error


def test_asks_for_the_revision_and_nothing_superfluous(hub: Any, tmp_path: Path) -> None:
    seen = hub(str(tmp_path))
    assert resolve("owner/name", "v1").path == tmp_path
    assert seen["revision"] == "v1"
    assert seen["allow_patterns"] == list(ALLOW_PATTERNS)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (errors.RepositoryNotFoundError, "no such model on the hub"),
        (errors.RevisionNotFoundError, "no revision 'v1'"),
        (errors.GatedRepoError, "gated"),
        (errors.HfHubHTTPError, "could not be downloaded"),
    ],
)
def test_hub_errors_are_one_line(kind: Any, message: str, hub: Any) -> None:
    original = http_error(kind)
    hub(original)
    with pytest.raises(SourceError, match=message) as error:
        resolve("owner/name", "v1")
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is original


def test_unreachable_hub(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    hub(errors.LocalEntryNotFoundError("nothing"))
    with pytest.raises(SourceError, match="the hub cannot be reached"):
        resolve("owner/name")


def test_modelscope_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELSCOPE, "True")
    monkeypatch.setitem(sys.modules, "modelscope", None)
    with pytest.raises(SourceError, match="pip install modelscope"):
        resolve("owner/name")


def test_modelscope_instead_of_the_hub(
    hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub(AssertionError("the hub was asked"))
    module = ModuleType("modelscope")
    seen: dict[str, Any] = {}

    def snapshot_download(repo: str, **keywords: Any) -> str:
        seen.update(keywords, repo=repo)
        return str(tmp_path)

    module.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "modelscope", module)
    monkeypatch.setenv(MODELSCOPE, "true")
    assert resolve("owner/name").path == tmp_path
    assert (seen["repo"], seen["revision"]) == ("owner/name", None)

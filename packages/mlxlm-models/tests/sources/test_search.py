from pathlib import Path

import pytest
from mlxlm_models.errors import SourceError
from mlxlm_models.sources import Source, resolve


def test_directory(tmp_path: Path) -> None:
    assert resolve(str(tmp_path)) == Source(str(tmp_path), "directory", tmp_path)
    assert resolve(tmp_path).path == tmp_path


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    assert resolve("~/model").path == tmp_path / "model"


def test_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()
    source = resolve(str(file))
    assert (source.kind, source.path, source.is_gguf) == ("gguf", file, True)


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere", "~/nowhere", "a/b/c", "../x", ""])
def test_absent_path_is_never_looked_up_on_the_hub(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlxlm_models.sources.search.download", lambda *_: pytest.fail("hub"))
    with pytest.raises(SourceError, match="no directory"):
        resolve(name)


def test_absent_gguf_file() -> None:
    with pytest.raises(SourceError, match="no file 'model.gguf'"):
        resolve("model.gguf")


def test_other_file(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    with pytest.raises(SourceError, match="directory"):
        resolve(str(file))


@pytest.mark.parametrize("name", ["owner/name", "gpt2"])
def test_other_names_are_hub_ids(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def download(repo: str, revision: str | None) -> Path:
        seen.append((repo, revision))
        return Path("snapshot")

    monkeypatch.setattr("mlxlm_models.sources.search.download", download)
    assert resolve(name, "v1") == Source(name, "hub", Path("snapshot"), "v1")
    assert seen == [(name, "v1")]


def test_revision_of_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="revision='v1'"):
        resolve(str(tmp_path), "v1")

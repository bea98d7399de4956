import sys
from pathlib import Path

import pytest
from mlxlm_models.errors import SourceError
from mlxlm_models.sources import resolve


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package that fails when it is imported."""
    root = tmp_path / "holds_models"
    root.mkdir()
    (root / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return root


def test_one_gguf_file_without_importing(package: Path) -> None:
    (package / "data").mkdir()
    file = package / "data" / "model.gguf"
    file.touch()
    source = resolve("package:holds_models")
    assert (source.kind, source.path, source.is_gguf) == ("package", file, True)
    assert "holds_models" not in sys.modules


def test_one_directory(package: Path) -> None:
    directory = package / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").touch()
    assert resolve("package:holds_models").path == directory


def test_none(package: Path) -> None:
    (package / "config.json").write_text("{}")
    with pytest.raises(SourceError, match="no .gguf file and no directory") as error:
        resolve("package:holds_models")
    assert str(package) in str(error.value)


def test_several_are_listed(package: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (package / name).touch()
    with pytest.raises(SourceError, match="2 models") as error:
        resolve("package:holds_models")
    assert all(str(package / name) in str(error.value) for name in ("a.gguf", "b.gguf"))


def test_not_installed() -> None:
    with pytest.raises(SourceError, match="'holds_nothing' is not installed"):
        resolve("package:holds_nothing")


def test_single_module() -> None:
    with pytest.raises(SourceError, match="single module"):
        resolve("package:this")


def test_distribution_name_is_corrected(package: Path) -> None:
    with pytest.raises(SourceError, match="perhaps package:holds_models"):
        resolve("package:holds-models")
    with pytest.raises(SourceError, match="top-level"):
        resolve("package:holds_models.data")

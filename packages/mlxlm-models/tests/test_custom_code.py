import sys
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_models.construct import construct
from mlxlm_models.errors import RemoteCodeError

CODE = """
from dataclasses import dataclass
from pathlib import Path
import mlx.nn as nn

Path(__file__).with_name("ran").touch()

@dataclass
class ModelArgs:
    size: int

    @classmethod
    def from_dict(cls, config):
        return cls(config["size"])

class Model(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.proj = nn.Linear(args.size, args.size, bias=False)

    def sanitize(self, weights):
        return {name.removeprefix("old."): array for name, array in weights.items()}
"""
CONFIG = {"model_type": "mine", "model_file": "mine.py", "size": 3}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.py").write_text(CODE)
    return tmp_path / "model"


def test_R46_runs_nothing_unless_trusted(directory: Path) -> None:
    with pytest.raises(ValueError, match="requires importing and running a custom module") as error:
        construct(CONFIG, directory, trust_remote_code=False)
    assert isinstance(error.value, RemoteCodeError)
    assert str(error.value) == (
        f"The model at {directory} requires importing and running a custom module ('mine.py') to "
        "build its architecture. This is disabled by default. Pass trust_remote_code=True if you "
        "trust this model."
    )
    assert not (directory / "ran").exists()


def test_trusted_file_builds_the_model(directory: Path) -> None:
    blueprint = construct(CONFIG, directory, trust_remote_code=True)
    assert isinstance(blueprint.model.proj, nn.Linear)
    assert (directory / "ran").exists()
    weights = {"old.proj.weight": mx.zeros((3, 3))}
    assert blueprint.sanitize(weights).keys() == {"proj.weight"}


@pytest.mark.parametrize("name", ["../outside.py", "sub/../../outside.py", "ABSOLUTE", 3])
def test_R46_path_must_stay_inside(name: object, directory: Path) -> None:
    outside = directory.parent / "outside.py"
    outside.write_text(CODE)
    name = str(outside) if name == "ABSOLUTE" else name
    with pytest.raises(RemoteCodeError, match="leads out of|not a file name"):
        construct(CONFIG | {"model_file": name}, directory, trust_remote_code=True)
    assert not (directory.parent / "ran").exists()


def test_R46_symbolic_link_must_stay_inside(directory: Path) -> None:
    outside = directory.parent / "outside.py"
    outside.write_text(CODE)
    (directory / "link.py").symlink_to(outside)
    with pytest.raises(RemoteCodeError, match="leads out of"):
        construct(CONFIG | {"model_file": "link.py"}, directory, trust_remote_code=True)


def test_links_of_a_hub_cache_are_inside(tmp_path: Path) -> None:
    repo = tmp_path / "models--owner--name"
    snapshot, blobs = repo / "snapshots" / "0123", repo / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "4567").write_text(CODE)
    (snapshot / "mine.py").symlink_to("../../blobs/4567")
    assert construct(CONFIG, snapshot, trust_remote_code=True).model.proj.weight.shape == (3, 3)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class ModelArgs: ...", "no class 'Model'"),
        ("class Model: ...", "no class 'ModelArgs'"),
    ],
)
def test_file_without_the_classes(code: str, message: str, directory: Path) -> None:
    (directory / "mine.py").write_text(code)
    with pytest.raises(RemoteCodeError, match=message):
        construct(CONFIG, directory, trust_remote_code=True)


def test_absent_file(directory: Path) -> None:
    with pytest.raises(RemoteCodeError, match=r"no file 'other\.py'"):
        construct(CONFIG | {"model_file": "other.py"}, directory, trust_remote_code=True)


def test_error_of_the_file_itself_comes_through(directory: Path) -> None:
    (directory / "mine.py").write_text("raise RuntimeError('its own')")
    before = set(sys.modules)
    with pytest.raises(RuntimeError, match="its own"):
        construct(CONFIG, directory, trust_remote_code=True)
    assert set(sys.modules) == before

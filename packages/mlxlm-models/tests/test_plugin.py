"""A distribution that adds an architecture of its own, installed as any wheel is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

MODULE = '''
"""Finch: a Llama whose blocks add half of what they compute."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm


@dataclass(frozen=True, kw_only=True)
class FinchConfig(DecoderConfig):
    share: float = 0.5

    def block(self, layer):
        return replace(super().block(layer), residual_scale=self.share)


ARCHITECTURE = Architecture("finch", FinchConfig, causal_lm)
'''
INFO = {
    "METADATA": "Metadata-Version: 2.1\nName: finch-models\nVersion: 0.1\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "entry_points.txt": "[mlxlm.models]\nfinch = finch_models:ARCHITECTURE\n",
}
PROGRAM = """
import json, sys
from pathlib import Path
import mlx.core as mx
from mlx.utils import tree_flatten
from mlxlm_models import list_architectures, load_model
from mlxlm_models.registry import get_architecture

assert "finch" in list_architectures()
config = json.loads(Path(sys.argv[1], "config.json").read_text())
made, _ = get_architecture("finch").create(config)
mx.save_safetensors(sys.argv[1] + "/model.safetensors", dict(tree_flatten(made.parameters())))
model, _ = load_model(sys.argv[1])
tokens = mx.array([[1, 2, 3]])
assert mx.allclose(model(tokens), made(tokens), atol=1e-5).item()
print(model.layers[0].spec.residual_scale)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder of packages with the plugin in it: its wheel, unpacked."""
    wheel = tmp_path / "finch_models-0.1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("finch_models.py", MODULE)
        for name, text in INFO.items():
            archive.writestr(f"finch_models-0.1.dist-info/{name}", text)
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    return tmp_path / "site"


def test_an_installed_distribution_adds_an_architecture(site: Path, tmp_path: Path) -> None:
    config = {"model_type": "finch", "vocab_size": 16, "hidden_size": 8, "intermediate_size": 8}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "share": 0.25}
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(checkpoint)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0.25"]


def test_it_is_unknown_where_it_is_not_installed() -> None:
    program = "from mlxlm_models import list_architectures; print('finch' in list_architectures())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr

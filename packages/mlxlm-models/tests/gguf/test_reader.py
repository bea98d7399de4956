import math
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from mlxlm_models.errors import WeightsError
from mlxlm_models.gguf import open_gguf
from mlxlm_models.gguf.types import TENSOR_TYPES

ONE = {"token_embd.weight": (Type.F32, np.ones((4, 32), np.float32))}


def test_block_sizes_are_llama_cpps() -> None:
    theirs = {kind.value: (kind.name, *size) for kind, size in gguf.GGML_QUANT_SIZES.items()}
    ours = {value: (t.name, t.weights, t.size) for value, t in TENSOR_TYPES.items()}
    shared = theirs.keys() & ours.keys()
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
    assert {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"} <= {ours[key][0] for key in shared}


def test_every_value_type(tmp_path: Path) -> None:
    values: dict[str, tuple[str, Any]] = {
        "u8": ("uint8", 200),
        "i8": ("int8", -100),
        "u16": ("uint16", 60000),
        "i16": ("int16", -30000),
        "u32": ("uint32", 4_000_000_000),
        "i32": ("int32", -2_000_000_000),
        "u64": ("uint64", 2**63),
        "i64": ("int64", -(2**62)),
        "f32": ("float32", 1e-5),
        "f64": ("float64", math.pi),
        "yes": ("bool", True),
        "text": ("string", "naïve 日本語 🙂"),
        "strings": ("array", ["a", "", "é"]),
        "numbers": ("array", [1, 2, -3]),
        "floats": ("array", [0.5, -1.25]),
        "flags": ("array", [True, False]),
        "nested": ("array", [[1, 2], [3]]),
    }
    path = tmp_path / "all.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, (kind, value) in values.items():
        getattr(writer, f"add_{kind}")(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = open_gguf(path).metadata
    assert {key: metadata[key] for key in values} == {k: value for k, (_, value) in values.items()}


def test_shape_and_bytes_of_a_tensor(write: Any) -> None:
    values = np.arange(128, dtype=np.float32).reshape(4, 32)
    file = open_gguf(write({"a": (Type.F16, values), "b": (Type.F32, -values)}))
    assert file.tensors["a"].shape == (4, 32)
    assert np.array_equal(file.bytes_of(file.tensors["a"]).view(np.float16), values)
    assert np.array_equal(file.bytes_of(file.tensors["b"]).view(np.float32), -values)


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 not a model", b"gguf"])
def test_other_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=r"model\.gguf is not a GGUF file"):
        open_gguf(path)


@pytest.mark.parametrize(
    ("version", "message"), [(1, "version 1"), (9, "version 9"), (3 << 24, "big-endian")]
)
def test_other_version(version: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + version.to_bytes(4, "little") + bytes(16))
    with pytest.raises(WeightsError, match=message):
        open_gguf(path)


def test_cut_anywhere_is_an_error_naming_the_file(write: Any) -> None:
    path = write(ONE, metadata={"tokens": ["a", "b", "c"], "ids": [1, 2, 3]})
    content = path.read_bytes()
    for kept in range(4, len(content) - 31, 5):
        path.write_bytes(content[:kept])
        with pytest.raises(WeightsError, match=r"model\.gguf is truncated"):
            open_gguf(path)


def test_tensor_past_the_end_is_named(write: Any) -> None:
    path = write(ONE)
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(WeightsError, match=r"truncated: tensor 'token_embd.weight' ends at byte"):
        open_gguf(path)


def test_absurd_counts_fail_at_once(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    pair = (1).to_bytes(8, "little") + b"k" + (9).to_bytes(4, "little")
    for inner in (8, 4):
        array = inner.to_bytes(4, "little") + (2**60).to_bytes(8, "little")
        counts = (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
        path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + counts + pair + array)
        with pytest.raises(WeightsError, match="truncated"):
            open_gguf(path)


def test_unknown_value_and_tensor_types(write: Any, tmp_path: Path) -> None:
    path = write(ONE)
    content = bytearray(path.read_bytes())
    at = content.index(b"token_embd.weight") + len(b"token_embd.weight") + 4 + 16
    content[at : at + 4] = (99).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(WeightsError, match="'token_embd.weight' has the unknown type 99"):
        open_gguf(path)
    pair = (1).to_bytes(8, "little") + b"k" + (77).to_bytes(4, "little")
    counts = (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + counts + pair)
    with pytest.raises(WeightsError, match="value type 77"):
        open_gguf(path)


def test_real_vocabulary_is_parsed_quickly(smollm2: Path, smollm2_reference: Any) -> None:
    start = time.process_time()
    metadata = open_gguf(smollm2).metadata
    assert time.process_time() - start < 0.3
    assert len(metadata["tokenizer.ggml.tokens"]) == 49152
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.chat_template"):
        assert metadata[key] == smollm2_reference.fields[key].contents()

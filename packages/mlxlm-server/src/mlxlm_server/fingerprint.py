"""What tells the weights of a model from others under the same name."""

import hashlib
from importlib.metadata import version
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

_SAMPLED = 64  # values of each tensor: training and merging leave none as it was


def fingerprint(model: Any) -> str:
    """Return a hexadecimal digest of a sample of all weights, and of the code that uses them.

    Keys and values on disk outlive the process; after a checkpoint was replaced, or the
    architectures were mended, they must not be found any more.
    """
    flat: Any = sorted(tree_flatten(model.parameters()), key=lambda item: item[0])
    samples = [_sample(array) for _, array in flat]
    mx.eval(samples)
    digest = hashlib.sha256(version("mlxlm-models").encode())
    for (name, array), sample in zip(flat, samples, strict=True):
        digest.update(f"{name} {array.shape} {array.dtype} ".encode())
        digest.update(bytes(memoryview(sample)))  # type: ignore[arg-type]
    return digest.hexdigest()[:32]


def _sample(array: mx.array) -> mx.array:
    sample = array.reshape(-1)[:: max(1, array.size // _SAMPLED)]
    return sample.astype(mx.float32) if array.dtype == mx.bfloat16 else sample

"""One dtype for a GGUF model's activations."""

import mlx.core as mx


def to_float16(weights: dict[str, mx.array], model_type: str) -> dict[str, mx.array]:
    """Cast float32 tensors to float16, the dtype of the packed weights' scales.

    Norm weights are float32 in every GGUF file; beside float16 scales they would make all
    products float32. Gemma stays as it is: its activations overflow float16.
    """
    if model_type.startswith("gemma"):
        return weights
    return {
        name: array.astype(mx.float16) if array.dtype == mx.float32 else array
        for name, array in weights.items()
    }

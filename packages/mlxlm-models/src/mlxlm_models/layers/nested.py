"""The language model inside a multimodal checkpoint."""

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache

from mlxlm_models.layers.block import DecoderBlock
from mlxlm_models.layers.decoder import Decoder
from mlxlm_models.layers.module import Module


class NestedCausalLM(Module):
    """A causal language model named `language_model`, as converted checkpoints have it."""

    def __init__(self, language_model: nn.Module) -> None:
        super().__init__()
        self.language_model = language_model

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        return self["language_model"](tokens, cache, input_embeddings)  # type: ignore[no-any-return]

    @property
    def model(self) -> Decoder:
        return self.language_model.model  # type: ignore[no-any-return]

    @property
    def layers(self) -> list[DecoderBlock]:
        return self.language_model.layers  # type: ignore[no-any-return]

    def make_cache(self) -> list[Cache]:
        return self.language_model.make_cache()  # type: ignore[no-any-return]

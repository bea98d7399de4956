"""The language model inside a multimodal checkpoint."""

from collections.abc import Sequence

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_models.layers.block import DecoderBlock
from mlxlm_models.layers.decoder import CausalLM, Decoder, DecoderSpec
from mlxlm_models.layers.module import Module


class NestedCausalLM(Module):
    """A `CausalLM` under the name `language_model`, where converted checkpoints have it."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.language_model = CausalLM(spec)

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        return self["language_model"](tokens, cache, input_embeddings)  # type: ignore[no-any-return]

    @property
    def model(self) -> Decoder:
        return self.language_model.model

    @property
    def layers(self) -> list[DecoderBlock]:
        return self.language_model.layers

    def make_cache(self) -> list[Cache]:
        return self.language_model.make_cache()

"""StarCoder 2: layer norms, biases, a plain MLP, a window where the config has one."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec


@dataclass(frozen=True, kw_only=True)
class StarCoder2Config(DecoderConfig):
    hidden_act: str = "gelu_pytorch_tanh"
    norm_epsilon: float = 1e-5
    num_key_value_heads: int | None = 2
    max_position_embeddings: int | None = 4096
    use_bias: bool = True
    tie_word_embeddings: bool = True

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        return replace(spec, qkv_bias=self.use_bias, out_bias=self.use_bias)

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="c_fc", down="c_proj")
        return replace(super().dense(layer), gated=False, bias=self.use_bias, names=names)

    def norm(self) -> NormSpec:
        return NormSpec(self.norm_epsilon, kind="layer", bias=True)

    def layer_type(self, layer: int) -> str:
        return FULL if self.sliding_window is None else SLIDING


ARCHITECTURE = Architecture("starcoder2", StarCoder2Config, causal_lm)

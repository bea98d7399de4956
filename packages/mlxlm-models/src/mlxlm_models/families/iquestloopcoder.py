"""IQuest LoopCoder: Llama gone through twice, the second time with gates."""

from dataclasses import dataclass

import mlx.nn as nn

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.loop import LoopDecoderSpec, LoopedAttentionSpec
from mlxlm_models.layers.plan import Plan, Shard, model_plan
from mlxlm_models.layers.spec import recast


@dataclass(frozen=True, kw_only=True)
class IQuestLoopCoderConfig(DecoderConfig):
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    max_position_embeddings: int | None = 131072
    loop_num: int = 2
    loop_window_size: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("loop_num", "loop_window_size"):
            if getattr(self, key) <= 0:
                raise self.fail(key, f"{getattr(self, key)} is not above zero")

    def decoder(self) -> DecoderSpec:
        return recast(
            LoopDecoderSpec,
            super().decoder(),
            loops=self.loop_num,
            loop_window=self.loop_window_size,
        )

    def attention(self, layer: int) -> AttentionSpec:
        return recast(LoopedAttentionSpec, super().attention(layer))


def plan(model: nn.Module) -> Plan:
    """Return the plan of the layers, and of the gates beside them."""
    count = len(model.layers)
    gates = {f"model.gate_projections.{i}": Shard("heads") for i in range(count)}
    return model_plan(model) + Plan(gates)


ARCHITECTURE = Architecture("iquestloopcoder", IQuestLoopCoderConfig, causal_lm, plan=plan)

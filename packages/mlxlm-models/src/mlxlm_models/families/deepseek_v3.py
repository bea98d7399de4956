"""DeepSeek-V3 and R1: V2 with sigmoid scores, and a learned correction of the choice."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.deepseek_v2 import RULES, DeepSeekV2Config
from mlxlm_models.layers.router import RouterSpec


@dataclass(frozen=True, kw_only=True)
class DeepSeekV3Config(DeepSeekV2Config):
    first_k_dense_replace: int = 3
    n_shared_experts: int | None = 1
    n_group: int | None = 8
    topk_group: int | None = 4
    topk_method: str = "noaux_tc"
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.5
    scoring_func: str = "sigmoid"

    def router(self) -> RouterSpec:
        if self.scoring_func not in ("sigmoid", "softmax"):
            raise self.fail("scoring_func", f"{self.scoring_func!r} is neither sigmoid nor softmax")
        return replace(
            self.in_groups(super().router(), "top2"),
            scoring="sigmoid" if self.scoring_func == "sigmoid" else "softmax",
            scaling=self.routed_scaling_factor,
            epsilon=1e-20,
            correction="gate",
        )


ARCHITECTURE = Architecture("deepseek_v3", DeepSeekV3Config, causal_lm, RULES)

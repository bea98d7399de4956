"""The keys that mixtures of experts share, and the layers they describe."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from mlxlm_models.families.common import DecoderConfig
from mlxlm_models.layers.block import FeedForwardSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.moe import MoESpec
from mlxlm_models.layers.router import RouterSpec


@dataclass(frozen=True, kw_only=True)
class MoEConfig(DecoderConfig):
    """Every layer has experts of `expert_size`, with a router of softmax scores.

    `n_shared_experts` are one MLP as wide as so many experts.
    """

    aliases: ClassVar[Mapping[str, str]] = {
        "num_local_experts": "num_experts",
        "n_routed_experts": "num_experts",
    }

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int | None = None
    n_shared_experts: int | None = None
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.num_experts_per_tok <= self.num_experts:
            raise self.fail(
                "num_experts_per_tok", f"{self.num_experts_per_tok} of {self.num_experts} experts"
            )

    @property
    def expert_size(self) -> int:
        return self.moe_intermediate_size or self.intermediate_size

    def mlp(self, layer: int) -> FeedForwardSpec:
        return self.moe(layer) if self.has_experts(layer) else self.dense(layer)

    def has_experts(self, layer: int) -> bool:
        return True

    def moe(self, layer: int) -> MoESpec:
        shared = self.n_shared_experts
        return MoESpec(
            hidden_size=self.hidden_size,
            intermediate_size=self.expert_size,
            router=self.router(),
            activation=self.activation("hidden_act"),
            shared=self.shared(shared * self.expert_size) if shared else None,
        )

    def shared(self, intermediate_size: int) -> MLPSpec:
        return MLPSpec(
            hidden_size=self.hidden_size,
            intermediate_size=intermediate_size,
            activation=self.activation("hidden_act"),
        )

    def router(self) -> RouterSpec:
        return RouterSpec(
            experts=self.num_experts,
            top_k=self.num_experts_per_tok,
            normalize=self.norm_topk_prob,
            scaling=self.routed_scaling_factor,
        )


@dataclass(frozen=True, kw_only=True)
class GroupedMoEConfig(MoEConfig):
    """DeepSeek-V3's routing: sigmoid scores, a learned correction, choice within groups.

    The first `first_k_dense_replace` layers have no experts.
    """

    first_k_dense_replace: int = 0
    moe_layer_freq: int = 1
    n_group: int | None = 1
    topk_group: int | None = 1
    scoring_func: str = "sigmoid"

    def has_experts(self, layer: int) -> bool:
        return layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0

    def router(self) -> RouterSpec:
        if self.scoring_func not in ("sigmoid", "softmax"):
            raise self.fail("scoring_func", f"{self.scoring_func!r} is neither sigmoid nor softmax")
        return replace(
            self.in_groups(super().router(), "top2"),
            scoring="sigmoid" if self.scoring_func == "sigmoid" else "softmax",
            epsilon=1e-20,
            correction="gate",
            wide=True,
        )

    def in_groups(self, router: RouterSpec, score: Literal["max", "top2"]) -> RouterSpec:
        groups, kept = self.n_group or 1, self.topk_group or 1
        if self.num_experts % groups:
            raise self.fail("n_group", f"{self.num_experts} experts don't make {groups} groups")
        if kept > groups:
            raise self.fail("topk_group", f"{kept} of {groups} groups")
        return replace(router, groups=groups, kept_groups=kept, group_score=score)

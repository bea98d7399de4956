"""Experts of fewer features than the stream: it is projected before them and after (Muse)."""

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.moe import MoE, MoESpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan


@dataclass(frozen=True, kw_only=True)
class PooledMoESpec(MoESpec):
    """Experts read `pooled_size` features, by `pre_norm`; `post_norm` is of what each gives.

    The router reads the stream itself.
    """

    pooled_size: int
    pre_norm: NormSpec
    post_norm: NormSpec

    @property
    def width(self) -> int:
        return self.pooled_size

    def plan(self) -> Plan:
        """Return nothing to divide: what an expert gives is normalised as a whole."""
        return Plan()

    def readers(self) -> tuple[str, ...]:
        return (self.names.gate, "pre_expert_proj")

    def build(self) -> "PooledMoE":
        return PooledMoE(self)


class PooledMoE(MoE):
    """x (B, L, hidden) → (B, L, hidden)."""

    def __init__(self, spec: PooledMoESpec) -> None:
        super().__init__(spec)
        self.pre_expert_proj = nn.Linear(spec.hidden_size, spec.pooled_size, bias=False)
        self.pre_expert_norm = spec.pre_norm.build(spec.pooled_size)
        self[spec.names.experts].post_expert_norm = spec.post_norm.build(spec.pooled_size)
        self.post_expert_proj = nn.Linear(spec.pooled_size, spec.hidden_size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        chosen, weights = self.spec.router.choose(*self._logits(x))
        pooled = self["pre_expert_norm"](self["pre_expert_proj"](x))
        experts = self[self._names.experts]
        out = experts["post_expert_norm"](experts(pooled, chosen))
        out = (weights.astype(x.dtype)[..., None, :] @ out).squeeze(-2)
        return self["post_expert_proj"](out)  # type: ignore[no-any-return]

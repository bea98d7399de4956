"""Step 3.5: heads, rotation and bounds that differ by layer, gated heads, corrected routing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.activations import BoundedSwiGLU, GateSpec
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.rope_settings import RopeSettings
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, Increase, Rename, drop_extra_layers


@dataclass(frozen=True, kw_only=True)
class Step3p5Config(MoEConfig):
    """`attention_other_setting` has the heads of layers with a window.

    `rope_scaling` is of the layer types in `yarn_only_types`, of all where there is no such key.
    Experts and shared MLPs are bounded by a limit per layer; none or 0 is no bound.
    """

    aliases: ClassVar[Mapping[str, str]] = {
        "num_attention_groups": "num_key_value_heads",
        "moe_num_experts": "num_experts",
        "moe_top_k": "num_experts_per_tok",
        "moe_router_scaling_factor": "routed_scaling_factor",
        "norm_expert_weight": "norm_topk_prob",
    }

    rms_norm_eps: float = 1e-5
    max_position_embeddings: int | None = 262144
    rope_theta: float | list[float] = 10000.0  # type: ignore[assignment]
    partial_rotary_factors: list[float] | None = None
    yarn_only_types: list[str] | None = None
    use_rope_layers: list[bool] | None = None
    sliding_window: int | None = 512
    attention_other_setting: dict[str, Any] | None = None
    use_head_wise_attn_gate: bool = True
    num_experts: int = 288
    num_experts_per_tok: int = 8
    moe_intermediate_size: int | None = 1280
    share_expert_dim: int = 1280
    moe_layers_enum: str | None = None
    use_moe_router_bias: bool = True
    moe_router_activation: str = "sigmoid"
    routed_scaling_factor: float = 3.0
    swiglu_limits: list[float | None] | None = None
    swiglu_limits_shared: list[float | None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in (
            "rope_theta",
            "partial_rotary_factors",
            "swiglu_limits",
            "swiglu_limits_shared",
        ):
            value = getattr(self, key)
            if isinstance(value, list) and len(value) < self.num_hidden_layers:
                raise self.fail(key, f"it has {len(value)} of {self.num_hidden_layers} layers")
        if self.moe_router_activation not in ("sigmoid", "softmax"):
            raise self.fail(
                "moe_router_activation",
                f"{self.moe_router_activation!r} is neither sigmoid nor softmax",
            )

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        own = self.attention_other_setting
        if own is not None and self.layer_type(layer) == SLIDING:
            heads, groups = own.get("num_attention_heads"), own.get("num_attention_groups")
            if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups:
                raise self.fail(
                    "attention_other_setting",
                    f"{SLIDING} layers need num_attention_heads, and num_attention_groups that "
                    f"divide them",
                )
            spec = replace(spec, heads=heads, kv_heads=groups)
        return replace(
            spec,
            qk_norm=self.norm(),
            gate="heads" if self.use_head_wise_attn_gate else None,
            names=AttentionNames(gate="g_proj"),
        )

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return FULL if layer % 2 else SLIDING

    def has_experts(self, layer: int) -> bool:
        named = self.moe_layers_enum
        return layer > 0 if named is None else str(layer) in named.replace(" ", "").split(",")

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), activation=self._bounded(layer, shared=True))

    def moe(self, layer: int) -> MoESpec:
        shared = replace(self.dense(layer), intermediate_size=self.share_expert_dim)
        return replace(
            super().moe(layer),
            activation=self._bounded(layer, shared=False),
            shared=shared,
            names=MoENames(gate_inner="gate", shared="share_expert", correction="router_bias"),
        )

    def router(self) -> RouterSpec:
        return replace(
            super().router(),
            scoring="sigmoid" if self.moe_router_activation == "sigmoid" else "softmax",
            correction="router" if self.use_moe_router_bias else None,
            epsilon=1e-20,
        )

    def rope(self, layer: int) -> RopeSpec | None:
        if self.use_rope_layers and not self.use_rope_layers[layer]:
            return None
        thetas, kinds = self.rope_theta, self.yarn_only_types
        scaled = kinds is None or self.layer_type(layer) in kinds
        values = dict(self.rope_scaling or {}) if scaled else {}
        values["rope_theta"] = thetas[layer] if isinstance(thetas, list) else thetas
        if self.partial_rotary_factors:
            values["partial_rotary_factor"] = self.partial_rotary_factors[layer]
        return RopeSettings(values, self.head_size, self.max_position_embeddings, self.fail).spec()

    def _bounded(self, layer: int, shared: bool) -> GateSpec:
        limits = self.swiglu_limits_shared if shared else self.swiglu_limits
        limit = limits[layer] if limits else None
        return BoundedSwiGLU(limit) if limit else self.activation("hidden_act")


ARCHITECTURE = Architecture(
    "step3p5",
    Step3p5Config,
    causal_lm,
    (
        *COMMON_RULES,
        drop_extra_layers,
        Increase("*norm.weight", sign="*.moe.*"),
        Rename(r"(.*)\.moe\.gate\.", r"\1.mlp.gate.gate."),
        Rename(r"(.*)\.moe\.router_bias$", r"\1.mlp.gate.router_bias"),
        Rename(r"(.*)\.moe\.(gate|up|down)_proj\.", r"\1.mlp.switch_mlp.\2_proj."),
        Rename(r"(.*\.layers\.\d+)\.share_expert\.", r"\1.mlp.share_expert."),
    ),
)

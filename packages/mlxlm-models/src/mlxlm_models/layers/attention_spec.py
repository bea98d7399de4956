"""What one attention layer is: its sizes, its options, its parts' names, how it is divided."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, ScaleGroup, Shard
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.temperature import TemperatureSpec

if TYPE_CHECKING:
    from mlxlm_models.layers.attention import Attention


@dataclass(frozen=True)
class AttentionNames:
    """Names of the parts, as the checkpoints of a family have them."""

    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    o: str = "o_proj"
    qkv: str = "qkv_proj"
    q_norm: str = "q_norm"
    k_norm: str = "k_norm"
    gate: str = "gate_proj"
    inner_norm: str = "attn_sub_norm"
    sinks: str = "sinks"


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """What one attention layer is.

    `scale` of the scores is head_dim ** -0.5 unless given. `rope` None means no positions
    (NoPE). `value_dim` is the size of a value head where it isn't head_dim.

    What a token sees: itself and what came before, of that the latest `window` tokens, or
    those of its own `chunk` (positions p with equal p // chunk).

    `fused` stores the three projections as one: by `rows`, all queries then keys then
    values; by `groups`, for each key-value head its queries, its key, its value.

    `qk_norm` normalises queries and keys before rotation, or after with `norm_rotated`:
    each `head` with one shared weight, `each_head` with its own, or the whole `projection`.
    `value_norm` normalises values, with no weight. `keys_as_values` takes the projected keys,
    not yet normalised, for values too. `value_scale` multiplies values.

    `clip` bounds queries, keys and values. `soft_cap` bounds the scores; `alibi`, a slope per
    head, lowers those of far keys (needs keys in order: no window). `sinks` are learned
    scores, one per head, that take part in the softmax and have no value.

    `gate` multiplies the output by sigmoid(g): `query`: g is the second half of each head
    of the query projection; `features` or `heads`: a projection of its own, with one g per
    feature or per head; `gate_activation` may be another than sigmoid. `found_norm`
    normalises what each head found, before the gate; `inner_norm` what the output projection
    reads.
    """

    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    rope: RopeSpec | None
    value_dim: int | None = None
    scale: float | None = None
    window: int | None = None
    chunk: int | None = None
    soft_cap: float | None = None
    alibi: tuple[float, ...] | None = None
    clip: float | None = None
    sinks: bool = False
    temperature: TemperatureSpec | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    gate_bias: bool = False
    qk_norm: NormSpec | None = None
    qk_norm_over: Literal["head", "each_head", "projection"] = "head"
    norm_rotated: bool = False
    value_norm: NormSpec | None = None
    keys_as_values: bool = False
    value_scale: float | None = None
    found_norm: NormSpec | None = None
    inner_norm: NormSpec | None = None
    gate: Literal["query", "features", "heads"] | None = None
    gate_activation: Literal["sigmoid", "softplus", "silu"] = "sigmoid"
    fused: Literal["rows", "groups"] | None = None
    names: AttentionNames = AttentionNames()

    @property
    def value_size(self) -> int:
        return self.head_dim if self.value_dim is None else self.value_dim

    @property
    def mask_array(self) -> bool:
        """Whether the mask has to be an array: the fused kernel is not what attends."""
        return self.soft_cap is not None or self.alibi is not None

    def divided(self, parts: int) -> "AttentionSpec":
        """Return what each of `parts` members computes; ValueError where heads don't divide."""
        if self.heads % parts or self.kv_heads % parts:
            raise ValueError(
                f"{self.heads} heads and {self.kv_heads} key-value heads cannot be divided "
                f"among {parts}"
            )
        return replace(self, heads=self.heads // parts, kv_heads=self.kv_heads // parts)

    def plan(self) -> Plan:
        names = self.names
        if self.fused == "rows":
            sizes = (self.heads, self.kv_heads, self.kv_heads)
            shards = {names.qkv: Shard("outputs", tuple(n * self.head_dim for n in sizes))}
        elif self.fused == "groups":
            shards = {names.qkv: Shard("outputs")}
        else:
            shards = {name: Shard("outputs") for name in (names.q, names.k, names.v)}
        shards[names.o] = Shard("inputs")
        if self.gate in ("features", "heads"):
            shards[names.gate] = Shard("outputs")
        if self.sinks:
            shards[names.sinks] = Shard("heads")
        if self.qk_norm is not None and self.qk_norm_over == "each_head":
            shards |= {names.q_norm: Shard("heads"), names.k_norm: Shard("heads")}
        if self.keys_as_values:
            del shards[names.v]
        # Values reach the output projection feature by feature where no heads share them.
        norms = self.inner_norm or self.found_norm or self.value_norm
        altered = self.fused or self.clip or norms
        own = self.heads == self.kv_heads and not (altered or self.keys_as_values)
        groups = (ScaleGroup(names.v, (names.o,), names.o),) if own else ()
        return Plan(shards, groups)

    def readers(self) -> tuple[str, ...]:
        """Return the names of the layers that read the input."""
        names = self.names
        qkv: tuple[str, ...] = (names.qkv,) if self.fused else (names.q, names.k, names.v)
        if self.keys_as_values:
            qkv = (names.q, names.k)
        return (*qkv, names.gate) if self.gate in ("features", "heads") else qkv

    def build(self) -> "Attention":
        from mlxlm_models.layers.attention import Attention, FusedAttention  # it reads this file

        return FusedAttention(self) if self.fused else Attention(self)

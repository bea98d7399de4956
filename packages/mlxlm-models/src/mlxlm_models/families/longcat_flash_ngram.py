"""LongCat-Flash-Lite: LongCat-Flash that also embeds each token with those before it."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.longcat_flash import RULES, LongcatFlashConfig
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.ngram import NgramDecoderSpec, NgramSpec
from mlxlm_models.layers.spec import recast
from mlxlm_models.rules import Weights

_PLAIN = "model.embed_tokens."
_OWN = "model.ngram_embeddings.word_embeddings."


@dataclass(frozen=True, kw_only=True)
class LongcatFlashNgramConfig(LongcatFlashConfig):
    """Tables have `ngram_vocab_size_ratio` times as many rows as the vocabulary."""

    rope_theta: float = 5000000.0
    num_experts: int = 256
    moe_intermediate_size: int | None = 1024
    zero_expert_num: int = 128
    emb_neighbor_num: int = 4
    emb_split_num: int = 4
    ngram_vocab_size_ratio: int = 78
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.emb_neighbor_num < 2:
            raise self.fail("emb_neighbor_num", f"{self.emb_neighbor_num} is no n-gram's length")
        count = self.emb_split_num * (self.emb_neighbor_num - 1)
        if not 0 < count <= self.hidden_size:
            raise self.fail(
                "emb_split_num", f"{count} tables don't share {self.hidden_size} features"
            )

    def decoder(self) -> DecoderSpec:
        ends = self.eos_token_id
        ngrams = NgramSpec(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            longest=self.emb_neighbor_num,
            tables=self.emb_split_num,
            rows=self.ngram_vocab_size_ratio * self.vocab_size,
            ends=tuple(ends) if isinstance(ends, list) else () if ends is None else (ends,),
        )
        if self.tie_word_embeddings:
            raise self.fail("tie_word_embeddings", "the head is no embedding of n-grams")
        spec = recast(NgramDecoderSpec, super().decoder(), ngrams=ngrams)
        return replace(spec, names=DecoderNames(embeddings="ngram_embeddings"))


def one_embedding(weights: Weights, config: LongcatFlashNgramConfig) -> Weights:
    """Keep one of the two names that the tokens' own embeddings have in public checkpoints."""
    result = {name: value for name, value in weights.items() if not name.startswith(_PLAIN)}
    for name in weights.keys() - result.keys():
        result.setdefault(name.replace(_PLAIN, _OWN), weights[name])
    return result


ARCHITECTURE = Architecture(
    "longcat_flash_ngram", LongcatFlashNgramConfig, causal_lm, (one_embedding, *RULES)
)

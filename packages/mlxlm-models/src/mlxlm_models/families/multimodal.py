"""The text part of multimodal checkpoints, whichever decoder it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig
from mlxlm_models.layers.nested import NestedCausalLM
from mlxlm_models.registry import get_architecture
from mlxlm_models.rules import Drop, Rename, Rule, Weights, apply_rules

_PREFIX = "language_model."


@dataclass(frozen=True, kw_only=True)
class MultimodalConfig:
    """A config whose text part is nested under `text_config`, or, in older ones, is the whole.

    `texts` maps the text part's own `model_type` to the architecture that it is, where the
    registry has no such type: by a name that it has, or itself, where no config is of the text
    part alone. The first is meant where the part doesn't say. `defaults` are
    what the part means by leaving a key out, where the architecture means something else.
    """

    texts: ClassVar[Mapping[str, str | Architecture[Any]]]
    defaults: ClassVar[Mapping[str, Any]] = {}

    model_type: str
    text: DecoderConfig
    text_architecture: Architecture[Any]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the text part; ConfigError where it cannot be used."""
        text = data.get("text_config")
        values = {**cls.defaults, **(data if text is None else text)}
        if "tie_word_embeddings" in data:
            values.setdefault("tie_word_embeddings", data["tie_word_embeddings"])
        own = values.get("model_type") if text is not None else None
        first = next(iter(cls.texts))
        named = cls.texts.get(own or first, own or first)
        found = get_architecture(named) if isinstance(named, str) else named
        values["model_type"] = own or first
        return cls(
            model_type=data.get("model_type", "?"),
            text=found.config.from_dict(values),
            text_architecture=found,
        )


def nested(config: MultimodalConfig) -> NestedCausalLM:
    return NestedCausalLM(config.text_architecture.build(config.text))


def text_rules(weights: Weights, config: MultimodalConfig) -> Weights:
    """Apply the rules of the text part's architecture to the tensors of `language_model`."""
    text, rest = {}, {}
    for name, value in weights.items():
        if name.startswith(_PREFIX):
            text[name.removeprefix(_PREFIX)] = value
        else:
            rest[name] = value
    text = apply_rules(config.text_architecture.rules, text, config.text)
    return rest | {_PREFIX + name: value for name, value in text.items()}


def multimodal_rules(*own: Rule) -> tuple[Rule, ...]:
    """Return the rules that keep the text alone, under the names that converted ones have."""
    return (
        Drop(
            "*vision_tower.*",
            "*vision_model.*",
            "*visual.*",
            "*multi_modal_projector.*",
            "*mm_projector.*",
        ),
        Rename(r"model\.language_model\.", "language_model.model."),
        Rename(r"model\.", "language_model.model."),
        Rename(r"lm_head\.", "language_model.lm_head."),
        *own,
        text_rules,
    )

import mlx.core as mx
import pytest
from mlxlm_models.architecture import Architecture
from mlxlm_models.errors import ConfigError
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.rules import Drop, Rename

CONFIG = {
    "model_type": "llama",
    "vocab_size": 16,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def test_create_builds_what_the_config_describes() -> None:
    model, config = Architecture("llama", DecoderConfig, causal_lm).create(CONFIG)
    assert config.vocab_size == 16
    assert model(mx.array([[1, 2]])).shape == (1, 2, 16)


def test_create_refuses_a_config_that_lacks_a_key() -> None:
    data = {key: value for key, value in CONFIG.items() if key != "vocab_size"}
    with pytest.raises(ConfigError, match="vocab_size"):
        Architecture("llama", DecoderConfig, causal_lm).create(data)


def test_sanitize_runs_the_rules_in_order_and_leaves_what_it_was_given() -> None:
    rules = (Drop("a.b"), Rename(r"a\.", "b."))
    arch = Architecture("llama", DecoderConfig, causal_lm, rules)
    weights = {"a.b": mx.zeros(1), "a.c": mx.zeros(1), "other": mx.zeros(1)}
    _, config = arch.create(CONFIG)
    assert arch.sanitize(weights, config).keys() == {"b.c", "other"}
    assert weights.keys() == {"a.b", "a.c", "other"}
    assert arch.rename("a.layers.0") == "b.layers.0"

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mlxlm_models.config import ModelConfig
from mlxlm_models.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Tiny(ModelConfig):
    aliases: ClassVar[Mapping[str, str]] = {"n_embd": "hidden_size"}

    hidden_size: int
    theta: float = 10000.0
    window: int | None = 4096
    tied: bool = False
    act: str = "silu"
    kinds: list[str] | None = None
    scaling: dict[str, Any] | None = None


def read(**keys: Any) -> Tiny:
    return Tiny.from_dict({"model_type": "tiny", "hidden_size": 8} | keys)


def test_unknown_keys_are_ignored() -> None:
    assert read(transformers_version="5", torch_dtype="bfloat16") == read()


def test_a_missing_key_is_named_with_its_model_type() -> None:
    with pytest.raises(ConfigError, match=r"'tiny' lacks 'hidden_size'"):
        Tiny.from_dict({"model_type": "tiny"})


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("hidden_size", "8", "int"),
        ("hidden_size", True, "int"),
        ("hidden_size", 8.5, "int"),
        ("theta", "big", "float"),
        ("window", [], "int"),
        ("tied", 1, "bool"),
        ("act", 3, "str"),
        ("kinds", ["a", 1], "list"),
        ("scaling", [1], "dict"),
    ],
)
def test_a_mistyped_key_is_named_with_what_it_should_be(key: str, value: Any, wanted: str) -> None:
    with pytest.raises(ConfigError, match=rf"'tiny' has '{key}' = .*which is not {wanted}"):
        read(**{key: value})


def test_numbers_may_be_written_either_way() -> None:
    config = read(hidden_size=8.0, theta=500000)
    assert (config.hidden_size, type(config.hidden_size)) == (8, int)
    assert (config.theta, type(config.theta)) == (500000.0, float)


def test_null_is_none_where_the_key_may_be_and_else_the_default() -> None:
    assert read(window=None).window is None
    assert read(theta=None).theta == 10000.0
    assert read().window == 4096
    with pytest.raises(ConfigError, match="lacks 'hidden_size'"):
        read(hidden_size=None)


def test_aliases_fill_a_field_and_its_own_name_wins() -> None:
    assert Tiny.from_dict({"model_type": "tiny", "n_embd": 5}).hidden_size == 5
    assert Tiny.from_dict({"n_embd": 5, "model_type": "t", "hidden_size": 6}).hidden_size == 6


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@example({"hidden_size": float("inf")})
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["hidden_size", "theta", "window", "kinds"]), json_values))
def test_any_json_is_read_or_refused(data: Any) -> None:
    try:
        config = Tiny.from_dict({"model_type": "tiny", **data})
    except ConfigError:
        return
    assert isinstance(config.hidden_size, int)
    assert isinstance(config.theta, float)
    assert config.window is None or isinstance(config.window, int)

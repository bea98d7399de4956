import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache.layout import Layer, flatten, unflatten

Text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
States = st.lists(
    st.none() | st.just("array") | st.lists(st.just("array"), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
Meta = st.lists(st.integers(-(2**40), 2**40).map(str) | Text, max_size=3).map(tuple)


def arrays(state: object, counter: list[int]) -> object:
    """Replace each "array" by an array of its own."""
    if isinstance(state, list):
        return [arrays(item, counter) for item in state]
    if state is None:
        return None
    counter[0] += 1
    return mx.array([counter[0]])


def plain(state: object) -> object:
    if isinstance(state, list):
        return [plain(item) for item in state]
    return state.tolist() if isinstance(state, mx.array) else state


@settings(max_examples=60, deadline=None)
@given(
    stack=st.lists(st.tuples(States, Meta), min_size=1, max_size=12),
    metadata=st.dictionaries(Text, Text, max_size=4),
)
def test_what_is_flattened_comes_back(
    stack: list[tuple[list[object], tuple[str, ...]]], metadata: dict[str, str]
) -> None:
    counter = [0]
    layers = [Layer(f"C{i}", arrays(state, counter), meta) for i, (state, meta) in enumerate(stack)]
    again, facts = unflatten(*flatten(layers, metadata))
    assert facts == metadata
    for ours, theirs in zip(layers, again, strict=True):
        assert (theirs.class_name, theirs.meta_state) == (ours.class_name, ours.meta_state)
        assert plain(theirs.state) == plain(ours.state)


def test_the_metadata_is_mlx_lms() -> None:
    x = mx.zeros((1, 1, 3, 4))
    tensors, facts = flatten([Layer("KVCache", (x, None), ("3", "é"))], {"a.b": "c"})
    assert {name: array.shape for name, array in tensors.items()} == {
        "0.0": (1, 1, 3, 4),
        "0.1": (0,),
        "0.2": (),
        "0.3": (1,),
    }
    assert facts == {
        "0.a.b": "c",
        "1.0": "KVCache",
        "2.0": "",
        "2.1.0": "0.1",
        "2.1.1": "none",
        "2.2.0": "0.2",
        "2.2.1": "scalar",
        "2.3.0": "0.3",
        "2.3.1": "string",
    }


def test_a_state_of_something_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="arrays and None, not float"):
        flatten([Layer("KVCache", (1.5,), ())], {})


def test_a_leaf_of_unknown_kind_is_an_error() -> None:
    facts = {"1.0": "KVCache", "2.0": "", "2.1.0": "0.0", "2.1.1": "sparse"}
    with pytest.raises(ValueError, match="unknown kind 'sparse'"):
        unflatten({"0.0": mx.zeros(1)}, facts)

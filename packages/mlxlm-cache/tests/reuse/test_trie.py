from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache.reuse.trie import PromptTrie, PromptTrieResult, common_length

sequences = st.lists(st.integers(0, 2), max_size=7)


def common(a: Any, b: Any) -> int:
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def found_by_looking_at_all(stored: Any, model: str, tokens: list[int]) -> PromptTrieResult:
    near = [list(s) for s in stored]
    most = max((common(s, tokens) for s in near), default=0)
    shorter = [s for s in near if len(s) < len(tokens) and s == tokens[: len(s)]]
    longer = [s for s in near if len(s) > most > 0 and s[:most] == tokens[:most]]
    return PromptTrieResult(
        model=model,
        exact=tokens if tokens in near else None,
        shorter=max(shorter, key=len, default=None),
        longer=min(longer, key=lambda s: (len(s), s), default=None),
        common_prefix=most,
    )


def test_a_search_finds_exact_shorter_and_longer_matches() -> None:
    trie = PromptTrie()
    assert trie.add("m", [1, 2, 3, 4], "a") is None
    assert trie.add("m", [1, 2, 3, 4], "b") == "a"
    assert trie.search("m", [1, 2, 3, 4]) == PromptTrieResult("m", [1, 2, 3, 4], None, None, 4)
    assert trie.search("m", [1, 2]) == PromptTrieResult("m", None, None, [1, 2, 3, 4], 2)
    assert trie.search("m", [1, 2, 9]) == PromptTrieResult("m", None, None, [1, 2, 3, 4], 2)
    assert trie.search("m", [1, 2, 3, 4, 5]) == PromptTrieResult("m", None, [1, 2, 3, 4], None, 4)
    assert trie.search("m", [9]) == PromptTrieResult("m", None, None, None, 0)
    assert trie.search("other", [1, 2]) == PromptTrieResult("other", None, None, None, 0)


def test_R18_a_one_token_prefix_matches() -> None:
    trie = PromptTrie()
    trie.add("m", [7], "one")
    assert trie.search("m", [7, 8, 9]).shorter == [7]
    assert trie.search("m", [7]).exact == [7]


def test_what_is_not_stored_is_a_key_error() -> None:
    trie = PromptTrie()
    trie.add("m", [1, 2, 3], "a")
    for model, tokens in (("m", [1, 2]), ("m", [1, 2, 3, 4]), ("m", []), ("other", [1, 2, 3])):
        with pytest.raises(KeyError):
            trie.get(model, tokens)
        with pytest.raises(KeyError):
            trie.pop(model, tokens)
    assert trie.get("m", [1, 2, 3]) == "a"


def test_prefixes_are_popped_with_their_lengths() -> None:
    trie = PromptTrie()
    for n in (1, 2, 4):
        trie.add("m", [1, 2, 3, 4][:n], n)
    assert trie.pop_prefixes("m", [1, 2, 3, 4]) == [(1, 1), (2, 2)]
    assert trie.search("m", [1, 2, 3, 4]) == PromptTrieResult("m", [1, 2, 3, 4], None, None, 4)


@given(
    st.lists(st.tuples(st.sampled_from(["add", "add", "pop", "pop_prefixes"]), sequences)),
    st.lists(sequences, min_size=1),
)
@settings(max_examples=200, deadline=None)
def test_it_is_like_looking_at_every_sequence(acts: Any, questions: list[list[int]]) -> None:
    trie = PromptTrie()
    stored: dict[tuple[int, ...], int] = {}
    for value, (act, tokens) in enumerate(acts):
        key = tuple(tokens)
        if act == "add":
            assert trie.add("m", tokens, value) == stored.get(key)
            stored[key] = value
        elif act == "pop_prefixes":
            before = [(n, stored.pop(key[:n])) for n in range(len(key)) if key[:n] in stored]
            assert trie.pop_prefixes("m", tokens) == before
        elif key in stored:
            assert trie.pop("m", tokens) == stored.pop(key)
    for tokens in questions:
        ours, theirs = trie.search("m", tokens), found_by_looking_at_all(stored, "m", tokens)
        longer, other = ours.longer, theirs.longer
        assert (ours.exact, ours.shorter) == (theirs.exact, theirs.shorter)
        assert ours.common_prefix == theirs.common_prefix
        assert (longer is None) == (other is None)
        if longer is not None and other is not None:  # there may be several as short
            assert len(longer) == len(other)
            assert tuple(longer) in stored
            assert longer[: ours.common_prefix] == tokens[: ours.common_prefix]
    for tokens in list(stored):
        trie.pop("m", tokens)
    assert trie._roots == {}


@given(st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_common_length_is_that_of_the_common_prefix(a: list[int], b: list[int]) -> None:
    assert common_length(a, b) == common(a, b)
    assert common_length([*a, *b], a) == len(a)


def test_long_sequences_are_no_deeper_than_short_ones() -> None:
    trie = PromptTrie()
    long = list(range(200_000))
    trie.add("m", long, "a")
    trie.add("m", [*long[:150_000], 7], "b")
    assert trie.search("m", long[:160_000]).common_prefix == 160_000
    assert trie.search("m", [*long, 1]).shorter == long

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.chat.reasoning_budget import ReasoningBudget
from mlxlm_models.errors import TokenizerError
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

from .conftest import byte_tokenizer


@pytest.fixture(scope="module")
def thinker() -> TokenizerWrapper:
    """One token a byte, so that markers are of many tokens."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "<think></think>"
    return tokenizer


def said(tokenizer: TokenizerWrapper, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def run(tokenizer: TokenizerWrapper, wish: str, budget: ReasoningBudget) -> str:
    """Say `wish` as far as the budget lets it."""
    ids, tokens = iter(said(tokenizer, wish)), []
    while True:
        token = next(ids, None) if budget.forced is None else budget.forced
        if token is None:
            return tokenizer.decode(tokens)
        tokens.append(token)
        budget.advance(token)


@pytest.mark.parametrize(
    ("wish", "opened", "answer", "count"),
    [
        ("abc", True, "abc", 3),
        ("abcdefgh", True, "abcde</think>\nfgh", 13),
        ("<think>abcdefgh", False, "<think>abcde</think>\nfgh", 13),
        (" \n<think>abcdefgh", False, " \n<think>abcde</think>\nfgh", 13),
        ("so <think>abcdefgh", False, "so <think>abcdefgh", 0),
    ],
)
def test_reasoning_is_closed_when_it_is_enough(
    thinker: TokenizerWrapper, wish: str, opened: bool, answer: str, count: int
) -> None:
    budget = ReasoningBudget(thinker, 5, opened=opened, closing="</think>\n")
    assert run(thinker, wish, budget) == answer
    assert budget.reasoning_tokens == count


def test_reasoning_that_ends_by_itself_is_left_alone(thinker: TokenizerWrapper) -> None:
    for room in (len("a</think>"), 100):
        budget = ReasoningBudget(thinker, room, opened=True)
        assert run(thinker, "a</think>b" + 100 * "c", budget) == "a</think>b" + 100 * "c"
        assert budget.reasoning_tokens == len("a</think>")
        assert not budget.thinking


def test_no_reasoning_at_all(thinker: TokenizerWrapper) -> None:
    assert run(thinker, "a", ReasoningBudget(thinker, 0, opened=True)) == "</think>a"


def test_without_a_bound_it_counts(thinker: TokenizerWrapper) -> None:
    budget = ReasoningBudget(thinker, opened=True)
    assert run(thinker, "a" * 50 + "</think>b", budget) == "a" * 50 + "</think>b"
    assert budget.reasoning_tokens == 58


def test_channels_share_a_budget(tokenizer: TokenizerWrapper) -> None:
    tokenizer.chat_template = "<|channel>thought <channel|>"
    budget = ReasoningBudget(tokenizer, 12)
    wish = "a<|channel>thoughtb<channel|>c<|channel>thoughtdefg"
    assert run(tokenizer, wish, budget) == (
        "a<|channel>thoughtb<channel|>c<|channel>thoughtd<channel|>efg"
    )


def test_a_mask_allows_the_forced_token_alone(thinker: TokenizerWrapper) -> None:
    budget = ReasoningBudget(thinker, 1, opened=True)
    assert budget.mask() is None
    budget.advance(said(thinker, "a")[0])
    mask = budget.mask()
    assert mask is not None
    assert mask.dtype == mx.bool_
    assert [i for i, allowed in enumerate(mask.tolist()) if allowed] == said(thinker, "<")


def test_how_reasoning_would_begin(thinker: TokenizerWrapper) -> None:
    budget = ReasoningBudget(thinker)
    for token in said(thinker, "<think>"):
        assert budget.beginning == token
        budget.advance(token)
    assert budget.thinking
    assert budget.beginning is None
    budget = ReasoningBudget(thinker)
    budget.advance(said(thinker, "a")[0])
    assert budget.beginning is None


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "a", "<", "b "]), max_size=8),
    st.one_of(st.none(), st.integers(0, 12)),
    st.booleans(),
    st.lists(st.integers(0, 30), max_size=6),
)
def test_what_is_taken_back_leaves_no_trace(
    thinker: TokenizerWrapper, parts: list[str], room: int | None, opened: bool, backs: list[int]
) -> None:
    tokens = said(thinker, "".join(parts))
    budget = ReasoningBudget(thinker, room, opened=opened)
    seen: list[int] = []
    for back in [*backs, 0]:
        for token in tokens[len(seen) :]:
            budget.advance(token)
        seen = tokens[: max(0, len(tokens) - back)]
        budget.rollback(len(tokens) - len(seen))
        fresh = ReasoningBudget(thinker, room, opened=opened)
        for token in seen:
            fresh.advance(token)
        assert vars(budget) | {"_decode": None} == vars(fresh) | {"_decode": None}
        assert budget.forced == fresh.forced


def test_what_cannot_be_asked(tokenizer: TokenizerWrapper, thinker: TokenizerWrapper) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        ReasoningBudget(thinker, -1)
    with pytest.raises(ValueError, match="must have '</think>' in it"):
        ReasoningBudget(thinker, 1, closing="stop")
    tokenizer.chat_template = "plain"
    with pytest.raises(TokenizerError, match="no reasoning"):
        ReasoningBudget(tokenizer, 1)

import random
from copy import deepcopy
from typing import Any

import pytest
from mlxlm_generate import TokenConstraint
from mlxlm_models import ReasoningBudget, TokenizerWrapper
from mlxlm_server import Grammar, GrammarError, Grammars
from mlxlm_server.structured.compiled import Compiled
from mlxlm_server.structured.thinking import ThinkThenAnswer, thoughts_of


@pytest.fixture(scope="module")
def thinker(tokenizer: Any) -> TokenizerWrapper:
    """Its markers are of several tokens."""
    other = TokenizerWrapper(deepcopy(tokenizer._tokenizer))
    other.chat_template = "<think></think>"
    return other


@pytest.fixture(scope="module")
def compiled(thinker: TokenizerWrapper) -> Compiled:
    return Grammars(thinker).submit(Grammar.choice(["yes", "no"])).result()


@pytest.fixture
def make(thinker: TokenizerWrapper, compiled: Compiled) -> Any:
    thoughts = thoughts_of(compiled.vocabulary, thinker.thinking)

    def make(budget: int | None = None, opened: bool = False) -> TokenConstraint:
        reasoning = ReasoningBudget(thinker, budget, opened=opened)
        return ThinkThenAnswer(reasoning, compiled.constraint(), thoughts)

    return make


def allowed(constraint: TokenConstraint, size: int) -> list[bool]:
    mask = constraint.mask()
    assert mask is not None
    some: Any = mask.tolist()
    return some + [False] * (size - len(some))


def say(constraint: TokenConstraint, tokenizer: Any, text: str) -> None:
    """Say a text, every token of which is allowed."""
    for token in tokenizer.encode(text, add_special_tokens=False):
        assert allowed(constraint, len(tokenizer))[token], (text, tokenizer.decode([token]))
        constraint.advance(token)


def ends(constraint: TokenConstraint, tokenizer: Any) -> bool:
    some = allowed(constraint, len(tokenizer))
    return all(some[token] for token in tokenizer.eos_token_ids)


@pytest.mark.parametrize(
    ("opened", "answer"),
    [
        (False, "yes"),
        (False, "<think>hm, no { or [</think>no"),
        (True, "well</think>\n\nyes"),
        (True, "</think>\nyes"),
    ],
)
def test_a_model_may_think_and_then_keeps_to_the_grammar(
    make: Any, thinker: TokenizerWrapper, opened: bool, answer: str
) -> None:
    constraint = make(opened=opened)
    say(constraint, thinker, answer)
    assert ends(constraint, thinker)
    assert sum(allowed(constraint, len(thinker))) == len(thinker.eos_token_ids)


def test_an_answer_cannot_end_while_the_model_thinks(make: Any, thinker: TokenizerWrapper) -> None:
    constraint = make(opened=True)
    say(constraint, thinker, "let me see")
    assert not ends(constraint, thinker)
    for token in thinker.eos_token_ids:
        assert not allowed(constraint, len(thinker))[token]


def test_no_token_closes_the_reasoning_and_says_more(
    make: Any, thinker: TokenizerWrapper, compiled: Compiled
) -> None:
    some = allowed(make(opened=True), len(thinker))
    texts = compiled.vocabulary.texts
    over = [i for i, text in enumerate(texts) if text in (b"><", b">(", b">{", b"></")]
    assert over
    assert not any(some[i] for i in over)
    assert some[texts.index(b">")]


def test_a_budget_closes_the_reasoning(make: Any, thinker: TokenizerWrapper) -> None:
    constraint = make(3, opened=True)
    say(constraint, thinker, " one two three")
    for token in thinker.encode("</think>", add_special_tokens=False):
        some = allowed(constraint, len(thinker))
        assert some[token]
        assert sum(some) == 1
        constraint.advance(token)
    say(constraint, thinker, "no")
    assert ends(constraint, thinker)


@pytest.mark.parametrize("opened", [False, True])
def test_a_rollback_undoes_what_each_part_took(
    make: Any, thinker: TokenizerWrapper, opened: bool
) -> None:
    text = "<think>" * (not opened) + "a b c</think>\n\nyes"
    tokens = thinker.encode(text, add_special_tokens=False)
    constraint, drawing = make(4, opened=opened), random.Random(1)
    masks = [allowed(constraint, len(thinker))]
    for token in tokens:
        constraint.advance(token)
        masks.append(allowed(constraint, len(thinker)))
    for _ in range(20):
        back = drawing.randint(0, len(tokens))
        constraint.rollback(back)
        for place, token in enumerate(tokens[len(tokens) - back :], len(tokens) - back):
            assert allowed(constraint, len(thinker)) == masks[place]
            constraint.advance(token)


def test_an_answer_of_another_form_is_an_error(make: Any, thinker: TokenizerWrapper) -> None:
    constraint = make(opened=True)
    say(constraint, thinker, "hm</think>")
    with pytest.raises(GrammarError):
        constraint.advance(thinker.encode("what", add_special_tokens=False)[0])

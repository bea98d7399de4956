from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, make_prompt_cache
from mlxlm_generate import BatchResponse, InvalidPrompt, batch_generate, generate, generate_step
from mlxlm_sample import make_sampler

PROMPTS = ["hello", "a", "what is it?"]


def test_texts_are_those_of_generate(model: Any, tokenizer: Any) -> None:
    got = batch_generate(model, tokenizer, PROMPTS, max_tokens=8)
    assert got.texts == [generate(model, tokenizer, p, max_tokens=8) for p in PROMPTS]
    assert (got.caches, got.token_ids, got.logprobs) == (None, None, None)
    assert got.finish_reasons == ["length"] * 3
    assert got.errors == [None] * 3


def test_R29_strings_and_ids_with_limits_of_their_own(model: Any, tokenizer: Any) -> None:
    ids = [tokenizer.encode(p) for p in PROMPTS]
    mixed: list[Any] = [PROMPTS[0], ids[1], mx.array(ids[2])]
    got = batch_generate(model, tokenizer, mixed, max_tokens=[3, 9, 0], return_token_ids=True)
    assert got.token_ids == [
        [t for t, _ in generate_step(p, model, max_tokens=n)]
        for p, n in zip(ids, [3, 9, 0], strict=True)
    ]
    assert got.texts[2] == ""


def test_R29_what_is_passed_is_not_changed(model: Any, tokenizer: Any) -> None:
    class Subclass(KVCache):
        """Told apart by nothing: what it can do is asked."""

    caches: list[Any] = [None, [Subclass(), Subclass()], make_prompt_cache(model)]
    model(mx.array([[5, 6, 7]]), cache=caches[1])
    mx.eval([c.state for c in caches[1]])
    before = [c.keys[..., :3, :].tolist() for c in caches[1]]
    prompts, limits, given = [list(b"ab"), list(b"c"), list(b"de")], [4, 5, 6], list(caches)
    got = batch_generate(model, tokenizer, prompts, caches, limits, return_prompt_caches=True)
    assert all(one is other for one, other in zip(caches, given, strict=True))
    assert (prompts, limits) == ([list(b"ab"), list(b"c"), list(b"de")], [4, 5, 6])
    assert [c.offset for c in caches[1]] == [3, 3]
    assert [c.keys[..., :3, :].tolist() for c in caches[1]] == before
    assert [c.offset for c in caches[2]] == [0, 0]
    assert got.caches is not None
    assert [cache[0].offset for cache in got.caches] == [2 + 4, 3 + 1 + 5, 2 + 6]


def test_conversations_go_on_from_the_caches(model: Any, tokenizer: Any) -> None:
    first = batch_generate(
        model, tokenizer, PROMPTS, max_tokens=[4, 7, 5], return_prompt_caches=True
    )
    second = batch_generate(
        model, tokenizer, [" and?"] * 3, prompt_caches=first.caches, max_tokens=6
    )
    for i, (prompt, limit) in enumerate(zip(PROMPTS, [4, 7, 5], strict=True)):
        cache = make_prompt_cache(model)
        generate(model, tokenizer, prompt, max_tokens=limit, prompt_cache=cache)
        alone = generate(model, tokenizer, " and?", max_tokens=6, prompt_cache=cache)
        assert second.texts[i] == alone


def test_R60_log_probabilities_are_the_sampled_tokens(model: Any, tokenizer: Any) -> None:
    got = batch_generate(
        model, tokenizer, PROMPTS, max_tokens=4, return_logprobs=True, return_token_ids=True
    )
    assert got.logprobs is not None
    assert got.token_ids is not None
    for prompt, tokens, values in zip(PROMPTS, got.token_ids, got.logprobs, strict=True):
        steps = generate_step(tokenizer.encode(prompt), model, max_tokens=4)
        assert values == pytest.approx([lp[t].item() for t, lp in steps], abs=1e-4)
        assert len(tokens) == len(values)


def test_R28_seeds_make_an_answer_the_same_in_any_batch(model: Any, tokenizer: Any) -> None:
    def answers(prompts: list[str], seeds: list[int | None]) -> list[str]:
        got: BatchResponse = batch_generate(
            model, tokenizer, prompts, max_tokens=8, seeds=seeds, sampler=make_sampler(temp=1.0)
        )
        return got.texts

    (alone,) = answers(["hello"], [3])
    assert answers(["a", "hello", "hello", "hello"], [1, 3, None, 4])[1] == alone
    assert len(set(answers(["hello"] * 4, [3, 3, 4, None]))) == 3
    assert alone == generate(
        model, tokenizer, "hello", max_tokens=8, sampler=make_sampler(temp=1.0, key=3)
    )


def test_a_key_of_the_shared_sampler_is_no_reason_to_answer_alike(
    model: Any, tokenizer: Any
) -> None:
    def answers() -> list[str]:
        sampler = make_sampler(temp=1.0, key=3)
        return batch_generate(model, tokenizer, ["a"] * 4, max_tokens=8, sampler=sampler).texts

    assert len(set(answers())) == 4
    assert answers() == answers()


def test_R31_an_answer_that_fails_leaves_the_others(
    model: Any, tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(history: mx.array, logits: mx.array) -> mx.array:
        if history.size == 5 + 2:
            raise RuntimeError("broken")
        return logits

    got = batch_generate(
        model, tokenizer, PROMPTS, max_tokens=6, logits_processors=[broken], return_token_ids=True
    )
    assert got.finish_reasons == ["error", "length", "length"]
    assert [str(e) for e in got.errors] == ["broken", "None", "None"]
    assert got.token_ids is not None
    assert [len(tokens) for tokens in got.token_ids] == [2, 6, 6]
    for i in (1, 2):
        assert got.texts[i] == generate(model, tokenizer, PROMPTS[i], max_tokens=6)
    assert "broken" in caplog.text


def test_verbose_reports_on_stderr(
    model: Any, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    got = batch_generate(model, tokenizer, PROMPTS, max_tokens=3, verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Finished 3 of 3" in err
    assert "Generation: 9 tokens" in err
    assert (got.stats.prompt_tokens, got.stats.generation_tokens) == (5 + 1 + 11, 9)
    assert got.stats.prompt_tps > 0
    assert got.stats.generation_tps > 0


def test_wrong_prompts_and_options_raise(model: Any, tokenizer: Any) -> None:
    with pytest.raises(InvalidPrompt):
        batch_generate(model, tokenizer, ["hello", ""])
    with pytest.raises(TypeError, match="temperature"):
        batch_generate(model, tokenizer, ["hello"], temperature=1.0)  # type: ignore[call-arg]

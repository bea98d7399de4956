from typing import Any

import pytest
from mlxlm_cache import KVCache, make_prompt_cache
from mlxlm_cli.chat.conversation import Answer, Conversation
from mlxlm_generate import stream_generate

QUESTIONS = ("How tall is it?", "And how wide?", "Thanks.")


def silent(text: str) -> None:
    pass


def talk(model: Any, tokenizer: Any, **options: Any) -> Conversation:
    return Conversation(
        model, tokenizer, system_prompt="Be terse.", options={"max_tokens": 8, **options}
    )


def from_scratch(conversation: Conversation, question: str) -> str:
    """Answer with a new cache and the whole conversation as the prompt."""
    messages = [*conversation.messages, {"role": "user", "content": question}]
    ids = conversation.tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True
    )
    cache = make_prompt_cache(conversation.model)
    model, tokenizer = conversation.model, conversation.tokenizer
    pieces = stream_generate(model, tokenizer, ids, max_tokens=8, prompt_cache=cache)
    return "".join(piece.text for piece in pieces)


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("guesser", [{"ngram_draft": True}, {"draft_model": "toy"}])
def test_R25_guesses_change_no_turn(
    toy: Any, characters: Any, strip: bool, guesser: dict[str, Any]
) -> None:
    characters._strip = strip
    guesser = {name: toy if value == "toy" else value for name, value in guesser.items()}
    conversation = Conversation(toy, characters, options={"max_tokens": 8}, **guesser)
    fed: list[int] = []
    for question in QUESTIONS:
        wanted = from_scratch(conversation, question)
        answer = conversation.ask(question, silent, progress=lambda _, total: fed.append(total))
        assert answer == Answer(wanted, "length")
        assert {c.tokens_seen for c in conversation.cache} == {len(conversation._seen)}
    assert min(fed) < len(conversation._seen) // 2  # the cache is used


def test_a_prompt_stopped_before_the_draft_read_it_is_fed_anew(toy: Any, characters: Any) -> None:
    options = {"max_tokens": 8, "prefill_step_size": 4}
    conversation = Conversation(toy, characters, options=options, draft_model=toy)
    chunks: list[int] = []
    answer = conversation.ask(
        QUESTIONS[0], silent, lambda: len(chunks) > 1, lambda done, _: chunks.append(done)
    )
    assert answer == Answer("", "interrupted")
    assert {c.tokens_seen for c in conversation.cache} == {0}
    wanted = from_scratch(conversation, QUESTIONS[1])
    assert conversation.ask(QUESTIONS[1], silent).text == wanted


@pytest.mark.parametrize("strip", [False, True])
def test_every_turn_answers_as_if_the_conversation_were_read_anew(
    toy: Any, characters: Any, strip: bool
) -> None:
    characters._strip = strip
    conversation = talk(toy, characters)
    for question in QUESTIONS:
        wanted = from_scratch(conversation, question)
        assert conversation.ask(question, silent) == Answer(wanted, "length")
        assert conversation.messages[-1] == {"role": "assistant", "content": wanted}


def test_a_turn_feeds_only_what_the_cache_has_not_seen(toy: Any, characters: Any) -> None:
    conversation = talk(toy, characters)
    conversation.ask(QUESTIONS[0], silent)
    fed: list[int] = []
    conversation.ask(QUESTIONS[1], silent, progress=lambda done, total: fed.append(total))
    # end of the answer, the question with its two marks, the mark of the answer
    assert max(fed) <= 1 + len(QUESTIONS[1]) + 2 + 1 + 1


def test_a_cache_that_cannot_go_back_is_filled_anew(toy: Any, characters: Any) -> None:
    class Forward(KVCache):
        def is_trimmable(self) -> bool:
            return False

    toy._cache = Forward
    characters._strip = True
    conversation = talk(toy, characters)
    for question in QUESTIONS:
        wanted = from_scratch(conversation, question)
        assert conversation.ask(question, silent).text == wanted


def test_a_bounded_cache_goes_on_after_it_has_wrapped(toy: Any, characters: Any) -> None:
    del type(toy).make_cache
    conversation = Conversation(toy, characters, max_kv_size=16, options={"max_tokens": 8})
    for question in QUESTIONS:
        assert len(conversation.ask(question, silent).text) == 8
        assert conversation.cache[0].offset == len(conversation._seen)
        assert conversation.cache[0].size() <= 16


def test_a_stopped_answer_is_remembered_as_far_as_it_was_shown(toy: Any, characters: Any) -> None:
    conversation = talk(toy, characters)
    shown: list[str] = []
    answer = conversation.ask(QUESTIONS[0], shown.append, lambda: len(shown) >= 3)
    assert answer == Answer("".join(shown), "interrupted")
    assert conversation.messages[-1] == {"role": "assistant", "content": answer.text}
    assert len(answer.text) == 3
    wanted = from_scratch(conversation, QUESTIONS[1])
    assert conversation.ask(QUESTIONS[1], silent).text == wanted


def test_a_question_stopped_while_it_is_read_is_forgotten(toy: Any, characters: Any) -> None:
    conversation = talk(toy, characters, prefill_step_size=4)
    conversation.ask(QUESTIONS[0], silent)
    before = list(conversation.messages)
    answer = conversation.ask("long " * 20, silent, lambda: True)
    assert answer == Answer("", "interrupted")
    assert conversation.messages == before
    wanted = from_scratch(conversation, QUESTIONS[1])
    assert conversation.ask(QUESTIONS[1], silent).text == wanted


def test_an_error_forgets_the_question_and_the_cache(toy: Any, characters: Any) -> None:
    conversation = talk(toy, characters)
    conversation.ask(QUESTIONS[0], silent)

    def broken(text: str) -> None:
        raise KeyboardInterrupt

    before = list(conversation.messages)
    with pytest.raises(KeyboardInterrupt):
        conversation.ask(QUESTIONS[1], broken)
    assert conversation.messages == before
    assert conversation.cache[0].empty()
    wanted = from_scratch(conversation, QUESTIONS[1])
    assert conversation.ask(QUESTIONS[1], silent).text == wanted


def test_a_stop_token_is_in_the_cache_but_not_in_the_answer(toy: Any, characters: Any) -> None:
    probe = talk(toy, characters).ask(QUESTIONS[0], silent).text
    characters.eos_token_ids = {ord(probe[2])}
    conversation = talk(toy, characters)
    end = probe.index(probe[2])
    assert conversation.ask(QUESTIONS[0], silent) == Answer(probe[:end], "stop")
    assert conversation._seen[-1] == ord(probe[2])
    assert conversation.cache[0].offset == len(conversation._seen)


def test_reset_keeps_the_system_prompt_alone(toy: Any, characters: Any) -> None:
    conversation = talk(toy, characters)
    first = conversation.ask(QUESTIONS[0], silent)
    conversation.reset()
    assert conversation.messages == [{"role": "system", "content": "Be terse."}]
    assert conversation.ask(QUESTIONS[0], silent) == first

from typing import Any

TEXT = "Zwölf Boxkämpfer, 12 of them"


def test_tokens_and_text_are_those_of_the_tokenizer(live: Any, loaded: Any) -> None:
    ask = {"model": "smol", "prompt": TEXT, "return_token_strs": True}
    answer = live.http.post("/tokenize", json=ask).json()
    assert answer["tokens"] == loaded[1].encode(TEXT)
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    back = live.http.post("/detokenize", json={"tokens": answer["tokens"]}).json()
    assert back == {"prompt": TEXT}


def test_special_tokens_are_added_unless_refused(live: Any, loaded: Any, monkeypatch: Any) -> None:
    asked: list[bool] = []

    def encode(text: str, *, special: bool = False) -> list[int]:
        asked.append(special)
        return [1]

    monkeypatch.setattr(
        "mlxlm_server.routes.tokens.encode", lambda tokenizer, text, **kw: encode(text, **kw)
    )
    for extra in ({}, {"add_special_tokens": False}, {"add_special_tokens": True}):
        live.http.post("/tokenize", json={"prompt": "a", **extra})
    assert asked == [True, False, True]


def test_a_conversation_has_as_many_tokens_as_its_prompt(live: Any) -> None:
    messages = [{"role": "user", "content": "Name three fruits."}]
    count = live.http.post("/tokenize", json={"messages": messages}).json()["count"]
    used = live.openai.chat.completions.create(model="smol", messages=messages, max_tokens=1).usage
    assert count == used.prompt_tokens


def test_the_longest_prompt_is_told(serve: Any) -> None:
    live = serve(max_prompt_tokens=7)
    assert live.http.post("/tokenize", json={"prompt": "a"}).json()["max_model_len"] == 7


def test_R34_neither_or_both_and_wrong_ids_are_status_400(live: Any) -> None:
    messages = [{"role": "user", "content": "a"}]
    for path, body in (
        ("/tokenize", {}),
        ("/tokenize", {"prompt": "a", "messages": messages}),
        ("/detokenize", {"tokens": [-1]}),
        ("/detokenize", {"tokens": [10**9]}),
    ):
        assert live.http.post(path, json=body).status_code == 400

from typing import Any


def test_several_prompts_and_token_ids_are_continued(live: Any, loaded: Any) -> None:
    texts = ["The sky is", "Two and two make"]
    ids = [loaded[1].encode(text) for text in texts]
    both = live.openai.completions.create(model="smol", prompt=texts, max_tokens=6)
    same = live.openai.completions.create(model="smol", prompt=ids, max_tokens=6)
    alone = [
        live.openai.completions.create(model="smol", prompt=text, max_tokens=6).choices[0].text
        for text in texts
    ]
    assert [choice.text for choice in both.choices] == alone
    assert [choice.text for choice in same.choices] == alone
    assert both.usage.prompt_tokens == sum(map(len, ids))


def test_a_stream_ends_before_the_stop(live: Any) -> None:
    ask = {"model": "smol", "prompt": "The sky is", "max_tokens": 12}
    text = live.openai.completions.create(**ask).choices[0].text
    stop = text[6:9]
    chunks = list(live.openai.completions.create(**ask, stop=[stop], stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == text[: text.index(stop)]
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_R34_bad_token_ids_are_status_400_in_a_stream_too(live: Any) -> None:
    for stream in (False, True):
        body = {"prompt": [1, 10**7], "stream": stream}
        response = live.http.post("/v1/completions", json=body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "prompt"

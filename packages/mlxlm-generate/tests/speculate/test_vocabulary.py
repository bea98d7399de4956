from typing import Any

import pytest
from mlxlm_generate import DraftMismatch, check_draft_tokenizer


class Words:
    def __init__(self, *tokens: str, ends: Any = 0, begins: int | None = None) -> None:
        self.vocabulary = {token: i for i, token in enumerate(tokens)}
        self.eos_token_ids, self.bos_token_id = ends, begins

    def get_vocab(self) -> dict[str, int]:
        return self.vocabulary

    def encode(self, text: str) -> list[int]:
        raise AssertionError("the vocabulary is there")

    def decode(self, ids: Any) -> str:
        return ""


OURS = Words("</s>", "a", "b", "c", ends={0})


@pytest.mark.parametrize(
    "draft",
    [
        Words("</s>", "a", "b", "c", ends=0),
        Words("</s>", "a", "b", "c", "<pad>", ends=[0, 4]),
        Words("</s>", "a", ends=None, begins=0),
    ],
)
def test_R24_the_same_tokens_do_however_many_there_are(draft: Words) -> None:
    check_draft_tokenizer(OURS, draft)
    check_draft_tokenizer(draft, OURS)


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (Words("</s>", "a", "c", "b"), r"2 is 'b' and 'c', 3 is 'c' and 'b'\. Take"),
        (Words("w", "x", "y", "z"), r"2 is .* and 1 more"),
        (Words("</s>", "a", "b", "c", ends={3}), r"end with \[0\] and \[3\]"),
        (Words(), "no id in common"),
    ],
)
def test_R24_vocabularies_of_one_size_are_not_enough(draft: Words, message: str) -> None:
    with pytest.raises(DraftMismatch, match="Draft model tokenizer does not match.*" + message):
        check_draft_tokenizer(OURS, draft)


def test_R24_the_ids_that_begin_a_text() -> None:
    with pytest.raises(DraftMismatch, match="begin with 1 and 2"):
        check_draft_tokenizer(Words("</s>", "a", begins=1), Words("</s>", "a", begins=2))


def test_R24_tokenizers_that_name_no_vocabulary(tokenizer: Any) -> None:
    class Shifted(type(tokenizer)):  # type: ignore[misc]
        def encode(self, text: str) -> list[int]:
            return [byte ^ 1 for byte in text.encode()]

    check_draft_tokenizer(tokenizer, tokenizer)
    with pytest.raises(DraftMismatch, match="sample text"):
        check_draft_tokenizer(tokenizer, Shifted())

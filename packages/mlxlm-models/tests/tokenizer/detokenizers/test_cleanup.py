from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.tokenizer.detokenizers.cleanup import (
    CLEANUPS,
    CleanedDetokenizer,
    StreamingReplace,
)
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

small_text = st.text(alphabet=" .'nt,srvem?", max_size=12)


def test_the_list_is_transformers_own(wordpiece: TokenizerWrapper) -> None:
    for old, new in CLEANUPS:
        assert wordpiece.clean_up_tokenization(f"a{old}b") == f"a{new}b"


@settings(deadline=None, max_examples=300)
@given(st.lists(small_text), st.sampled_from([*CLEANUPS, ("aba", "b"), ("..", "")]))
def test_replacing_a_stream_is_replacing_its_text(
    parts: list[str], replacement: tuple[str, str]
) -> None:
    step = StreamingReplace(*replacement)
    text = "".join(map(step.add, parts)) + step.finish()
    assert text == "".join(parts).replace(*replacement)


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_cleaned_streams_add_up_to_decode(
    data: st.DataObject, wordpiece: TokenizerWrapper, check_stream: Any
) -> None:
    assert isinstance(wordpiece.detokenizer, CleanedDetokenizer)
    check_stream(wordpiece, data.draw(st.lists(st.integers(0, len(wordpiece) + 1))))

from hypothesis import given
from hypothesis import strategies as st
from mlxlm_models import ArgumentsDelta, ReasoningDelta, TextDelta, ToolCallBegin
from mlxlm_server.answer import Piece
from mlxlm_server.blocks import Began, Blocks, Ended, Grew

PIECES = st.lists(
    st.one_of(
        st.builds(TextDelta, st.sampled_from(["a", "b "])),
        st.builds(ReasoningDelta, st.sampled_from(["c", "d "])),
        st.just("call"),
    )
)


@given(PIECES)
def test_changes_build_up_the_blocks_and_lose_no_text(given_pieces: list[Piece | str]) -> None:
    pieces: list[Piece] = []
    for piece in given_pieces:
        if isinstance(piece, str):
            index = sum(isinstance(each, ToolCallBegin) for each in pieces)
            pieces += [ToolCallBegin(index, "f", f"id{index}"), ArgumentsDelta(index, "{}")]
        else:
            pieces.append(piece)
    blocks = Blocks()
    changes = [*blocks.feed(pieces), *blocks.close()]
    texts: dict[int, str] = {}
    open_: int | None = None
    for change in changes:
        index = change.block.index
        if isinstance(change, Began):
            assert (open_, index) == (None, len(texts))
            open_, texts[index] = index, ""
        elif isinstance(change, Grew):
            assert open_ == index
            texts[index] += change.text
        else:
            assert isinstance(change, Ended)
            assert open_ == index
            open_ = None
    assert open_ is None
    assert [block.text for block in blocks.done] == [texts[i] for i in range(len(texts))]
    kinds = [block.kind for block in blocks.done]
    assert all(a != b or a == "call" for a, b in zip(kinds, kinds[1:], strict=False))
    said = "".join(p.text for p in pieces if isinstance(p, TextDelta))
    assert said == "".join(block.text for block in blocks.done if block.kind == "text")

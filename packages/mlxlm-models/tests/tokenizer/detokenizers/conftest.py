"""The promise that every detokenizer is held to."""

from collections.abc import Callable, Sequence

import pytest
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

Check = Callable[[TokenizerWrapper, Sequence[int]], list[str]]


@pytest.fixture(scope="session")
def check_stream() -> Check:
    """Stream ids; segments must add up to `decode`, and are returned, the final one last."""

    def check(tokenizer: TokenizerWrapper, ids: Sequence[int]) -> list[str]:
        detokenizer = tokenizer.detokenizer
        segments = []
        for token in ids:
            detokenizer.add_token(token)
            segments.append(detokenizer.last_segment)
        detokenizer.finalize()
        segments.append(detokenizer.last_segment)
        detokenizer.finalize()
        expected = tokenizer.decode(list(ids))
        assert "".join(segments) == expected
        assert detokenizer.text == expected
        assert detokenizer.last_segment == ""
        assert detokenizer.tokens == list(ids)
        return segments

    return check

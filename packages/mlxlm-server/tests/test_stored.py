import pytest
from mlxlm_server.stored import Kept, Stored


def kept(text: str = "") -> Kept:
    return Kept({"text": text}, [{"role": "user", "content": text}])


def test_the_responses_unused_for_longest_are_forgotten() -> None:
    stored = Stored(most=2)
    stored.put("a", kept())
    stored.put("b", kept())
    assert stored.get("a") is not None
    stored.put("c", kept())
    assert stored.get("b") is None
    assert stored.get("a") is not None
    assert len(stored) == 2


def test_their_text_is_bounded() -> None:
    stored = Stored(most_bytes=5000)
    for i in range(20):
        stored.put(str(i), kept("x" * 500))
    assert 0 < len(stored) <= 5
    stored.put("too long", kept("x" * 5000))
    assert len(stored) == 0
    stored.put("short", kept())
    assert len(stored) == 1


@pytest.mark.parametrize(("id", "there"), [("a", True), ("b", False)])
def test_what_is_dropped_is_gone(id: str, there: bool) -> None:
    stored = Stored()
    stored.put("a", kept())
    assert stored.drop(id) is there
    assert len(stored) == 1 - there

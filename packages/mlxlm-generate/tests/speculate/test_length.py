import pytest
from mlxlm_generate import DraftLength, InvalidOption


def measured(longest: int = 4) -> DraftLength:
    length = DraftLength(longest)
    for _ in range(2):
        assert length.next() == 0
        length.plain(1.0)
    return length


def pause_of(length: DraftLength) -> int:
    """Speculate at a loss until it stops, then count the plain steps until it is back."""
    while drafted := length.next():
        length.checked(drafted, 0, 2.0)
    steps = 0
    while length.next() == 0:
        length.plain(1.0)
        steps += 1
    return steps


def test_follows_what_is_accepted() -> None:
    length = measured()
    assert length.next() == 4
    length.checked(4, 1, 1.0)
    assert length.next() == 2
    length.checked(2, 2, 1.0)
    assert length.next() == 3


def test_stays_on_while_it_gains() -> None:
    length = measured()
    for _ in range(100):
        assert length.next() == 4
        length.checked(4, 4, 1.5)


def test_a_loss_switches_it_off_for_longer_each_time() -> None:
    length = measured()
    assert [pause_of(length) for _ in range(7)] == [16, 32, 64, 128, 256, 512, 512]


def test_a_gain_makes_the_pause_short_again() -> None:
    length = measured()
    assert [pause_of(length), pause_of(length)] == [16, 32]
    for _ in range(4):
        length.checked(length.next(), length.next(), 0.5)
    assert pause_of(length) == 16


def test_longest_is_at_least_one() -> None:
    with pytest.raises(InvalidOption, match="longest=0"):
        DraftLength(0)


def test_what_a_plain_step_waited_for_counts() -> None:
    length = measured()
    length.waited(10.0)
    for _ in range(10):
        length.checked(length.next(), 0, 3.0)
    assert length.next()


def test_a_step_that_found_no_guess_counts_as_time_alone() -> None:
    length = measured()
    for _ in range(4):
        length.checked(0, 0, 2.0)
    assert length.next() == 0

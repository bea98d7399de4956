import pytest
from mlxlm_generate import DraftLength, InvalidOption


def measured(longest: int = 4, pace: float = 1.0, **options: DraftLength) -> DraftLength:
    length = DraftLength(longest, **options)
    for _ in range(2):
        assert length.next() == 0
        length.plain(pace)
    return length


def run(length: DraftLength, tokens: int, accepted: int, guess: float, check: float = 1.1) -> float:
    """Go on for so many tokens, plain ones taking a second; return how long it took."""
    done, took = 0, 0.0
    while done < tokens:
        drafted = length.next()
        right = min(accepted, drafted)
        seconds = drafted * guess + check if drafted else 1.0
        if drafted:
            length.checked(drafted, right, seconds)
        else:
            length.plain(seconds)
        done, took = done + right + 1, took + seconds
    return took


def test_follows_what_is_accepted() -> None:
    length = measured()
    assert length.next() == 1
    for accepted, following in [(1, 2), (2, 3), (3, 4), (4, 4), (1, 2), (0, 1)]:
        length.checked(length.next(), accepted, 0.5)
        assert length.next() == following


def test_stays_on_while_it_gains() -> None:
    length = measured()
    assert run(length, 200, accepted=4, guess=0.1) < 70


@pytest.mark.parametrize(
    ("accepted", "guess", "check"),
    [
        (0, 0.0, 1.3),  # n-grams that are never right
        (0, 1.0, 1.1),  # a draft of the target's size that is never right
        (4, 1.0, 1.1),  # and one that always is
        (1, 0.8, 1.5),
    ],
)
@pytest.mark.parametrize("tokens", [96, 256, 2000])
def test_R27_what_never_pays_costs_three_hundredths_at_most(
    accepted: int, guess: float, check: float, tokens: int
) -> None:
    length = measured()
    assert run(length, tokens, accepted, guess, check) < tokens / 0.97


def test_a_pause_is_as_long_as_the_loss_was_large() -> None:
    small, large = measured(), measured()
    small.checked(1, 0, 2.5)
    large.checked(1, 0, 3.5)
    pauses = []
    for length in (small, large):
        assert length.next() == 0
        steps = 0
        while length.next() == 0:
            length.plain(1.0)
            steps += 1
        pauses.append(steps)
    assert pauses == pytest.approx([50, 150], abs=1)


def test_it_comes_back_when_guesses_are_right_again() -> None:
    length = measured()
    run(length, 300, accepted=0, guess=0.0, check=1.5)
    assert run(length, 300, accepted=4, guess=0.0) < 200


def test_what_was_gained_may_be_lost_but_not_all_of_it() -> None:
    length = measured()
    run(length, 400, accepted=4, guess=0.1)
    assert run(length, 100, accepted=0, guess=0.5) < 108


def test_a_step_that_the_machine_was_slow_in_does_not_end_it() -> None:
    length = measured()
    run(length, 40, accepted=4, guess=0.1)
    length.checked(4, 4, 100.0)
    assert length.next() == 4


def test_lengths_that_share_lose_what_one_may() -> None:
    first = measured()
    second = measured(sharing=first)
    while first.next():
        first.checked(1, 0, 2.0)
    assert second.next() == 0


def test_longest_is_at_least_one() -> None:
    with pytest.raises(InvalidOption, match="longest=0"):
        DraftLength(0)


def test_what_a_plain_step_waited_for_counts() -> None:
    length = measured()
    length.plain(1.0)
    length.waited(9.0)
    length.plain(10.0)
    length.plain(10.0)
    for _ in range(10):
        length.checked(length.next(), 0, 3.0)
    assert length.next()


def test_a_step_that_found_no_guess_counts_as_time_alone() -> None:
    length = measured()
    for _ in range(4):
        length.checked(0, 0, 2.0)
    assert length.next() == 0

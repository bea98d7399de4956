import threading

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_sample import KeyStream, fold_in


def test_R28_the_key_at_a_position_depends_on_seed_and_position_alone() -> None:
    one, other = KeyStream(5), KeyStream(5)
    forwards = [one.at(i).tolist() for i in range(10)]
    mx.random.seed(99)
    backwards = [other.at(i).tolist() for i in reversed(range(10))]
    assert forwards == backwards[::-1]
    assert len({tuple(key) for key in forwards}) == 10  # type: ignore[arg-type]


def test_seeds_and_positions_share_no_key() -> None:
    seeds = [0, 1, 2, 3, 2**32, 2**32 + 1, 2**33, 2**64 - 1, -7]
    keys = {tuple(np.array(KeyStream(s).at(i))) for s in seeds for i in range(50)}
    assert len(keys) == len(seeds) * 50


def test_a_stream_from_an_mlx_key_starts_at_that_key() -> None:
    key = mx.random.key(3)
    assert mx.array_equal(KeyStream(key).at(4), fold_in(key, 4))


def test_fold_in_rows_equal_single_keys() -> None:
    keys = mx.random.split(mx.random.key(0), 5)
    positions = mx.array([3, 0, 2**32 - 1, 7, 7])
    folded = fold_in(keys, positions)
    for row, key, position in zip(folded, keys, positions, strict=True):
        assert mx.array_equal(row, fold_in(key, position))
    assert mx.array_equal(fold_in(keys, 2)[3], fold_in(keys[3], 2))


def test_fold_in_of_small_seeds_does_not_collide() -> None:
    keys = {tuple(np.array(fold_in(mx.random.key(s), i))) for s in range(20) for i in range(20)}
    assert len(keys) == 400


def test_a_stream_made_in_one_thread_serves_another() -> None:
    stream, found = KeyStream(11), []
    worker = threading.Thread(target=lambda: found.append(stream.at(2).tolist()))
    worker.start()
    worker.join()
    assert found == [stream.at(2).tolist()]


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_an_error(seed: int) -> None:
    with pytest.raises(ValueError, match="seed of 64 bits"):
        KeyStream(seed)


def test_an_array_that_is_no_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="mx.random.key"):
        KeyStream(mx.zeros((2,)))

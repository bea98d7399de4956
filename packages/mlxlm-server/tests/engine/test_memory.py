import pytest
from mlxlm_server import ServerSettings
from mlxlm_server.engine.memory import shares


@pytest.mark.parametrize(
    ("settings", "requests", "prefixes"),
    [
        ({}, 600, 300),
        ({"prompt_cache_bytes": 100}, 800, 100),
        ({"prompt_cache_bytes": 10_000}, 0, 900),
        ({"prompt_cache_size": 0, "prompt_cache_bytes": 100}, 900, 0),
        ({"max_models": 3}, 200, 100),
    ],
)
def test_the_limit_is_parted_between_requests_and_prefixes_of_all_models(
    settings: dict[str, int], requests: int, prefixes: int
) -> None:
    room = shares(ServerSettings(memory_limit=900, **settings))  # type: ignore[arg-type]
    assert (room.requests, room.prefixes) == (requests, prefixes)


def test_R20_without_a_limit_both_are_bounded_by_what_is_free() -> None:
    room = shares(ServerSettings())
    assert 0 < room.prefixes < room.requests < 2**45

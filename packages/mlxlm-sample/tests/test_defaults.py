import inspect
from dataclasses import FrozenInstanceError, asdict, fields
from typing import Any

import pytest
from mlxlm_sample import (
    SAMPLING,
    ProcessorOptions,
    SamplingOptions,
    make_frequency_penalty,
    make_logits_processors,
    make_presence_penalty,
    make_repetition_penalty,
    make_sampler,
)


def defaults_of(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def test_R05_functions_and_options_share_one_table() -> None:
    table = asdict(SAMPLING)
    for taker in (make_sampler, make_logits_processors, SamplingOptions, ProcessorOptions):
        found = defaults_of(taker)
        common = found.keys() & table.keys()
        assert len(common) >= 6
        assert {name: found[name] for name in common} == {name: table[name] for name in common}
    for maker in (make_repetition_penalty, make_presence_penalty, make_frequency_penalty):
        name = maker.__name__.removeprefix("make_").replace("penalty", "context_size")
        assert defaults_of(maker) == {"context_size": table[name]}


def test_R05_there_is_one_xtc_threshold() -> None:
    assert SAMPLING.xtc_threshold == 0.1
    assert [f.name for f in fields(SAMPLING) if "threshold" in f.name] == ["xtc_threshold"]


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SAMPLING.temp = 1.0  # type: ignore[misc]

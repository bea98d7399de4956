import logging
from argparse import Namespace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, save_prompt_cache
from mlxlm_cli.errors import CommandError
from mlxlm_cli.generate import build_parser
from mlxlm_cli.prompt_cache import open_prompt_cache


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    """Return a function that writes a cache of four tokens and returns its file."""

    def save(bits: int | None = None, **facts: Any) -> Path:
        cache = KVCache()
        keys = mx.random.normal((1, 2, 4, 64))
        cache.update_and_fetch(keys, keys)
        file = tmp_path / "book.safetensors"
        layers = [cache if bits is None else cache.to_quantized(group_size=64, bits=bits)]
        save_prompt_cache(file, layers, **facts)
        return file

    return save


def flags(file: Path, *argv: str) -> Namespace:
    return build_parser().parse_args(["--prompt-cache-file", str(file), *argv])


def test_R15_settings_are_stated_on_load(saved: Any, caplog: pytest.LogCaptureFixture) -> None:
    file = saved(4, model="org/model", tokens=[1, 2, 3, 4])
    with caplog.at_level(logging.INFO):
        opened = open_prompt_cache(flags(file))
    assert opened.model == "org/model"
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}: 4 tokens, keys and values in 4 bits, groups of 64, model org/model"
    ]


@pytest.mark.parametrize(
    ("flag", "value", "kept"), [("--kv-bits", "8", "4"), ("--kv-group-size", "32", "64")]
)
def test_R15_other_settings_than_the_files_are_an_error(
    saved: Any, flag: str, value: str, kept: str
) -> None:
    file = saved(4, model="org/model")
    with pytest.raises(CommandError, match=f"{flag} {value} differs .* with {flag} {kept};"):
        open_prompt_cache(flags(file, flag, value))
    open_prompt_cache(flags(file, flag, kept))


def test_R15_a_flag_that_the_file_leaves_idle_is_an_error(saved: Any) -> None:
    file = saved(model="org/model")
    with pytest.raises(CommandError, match="--kv-group-size has no effect"):
        open_prompt_cache(flags(file, "--kv-group-size", "32"))
    open_prompt_cache(flags(file, "--kv-bits", "8", "--kv-group-size", "32"))


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(CommandError, match="no prompt-cache file '/nowhere/x': check the path"):
        open_prompt_cache(flags(Path("/nowhere/x")))


def test_R22_another_model_than_the_files_is_an_error(saved: Any) -> None:
    file = saved(metadata={"model": "org/model"})  # mlx-lm's key
    with pytest.raises(CommandError) as error:
        open_prompt_cache(flags(file, "--model", "org/other"))
    assert str(error.value) == (
        "Providing a different model (org/other) than that used to create "
        "the prompt cache (org/model) is an error."
    )
    assert open_prompt_cache(flags(file, "--model", "org/model")).model == "org/model"


def test_R22_a_file_that_names_no_model_needs_one(saved: Any) -> None:
    file = saved()
    with pytest.raises(CommandError, match="give --model"):
        open_prompt_cache(flags(file))
    assert open_prompt_cache(flags(file, "--model", "org/model")).model is None


def test_R22_another_revision_than_the_files_is_an_error(saved: Any) -> None:
    file = saved(model="org/model", revision="abc")
    with pytest.raises(CommandError, match="--revision main"):
        open_prompt_cache(flags(file, "--revision", "main"))
    open_prompt_cache(flags(file, "--revision", "abc"))

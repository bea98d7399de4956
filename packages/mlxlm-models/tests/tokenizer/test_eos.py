import json
from pathlib import Path

import pytest
from mlxlm_models.errors import ConfigError, TokenizerError
from mlxlm_models.tokenizer.eos import as_ids, config_eos_ids, directory_eos_ids, token_id
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper


def test_ids_come_single_or_several() -> None:
    assert as_ids(None) == set()
    assert as_ids(0) == {0}
    assert as_ids([1, 2]) == {1, 2}


def test_text_config_counts() -> None:
    assert config_eos_ids({"eos_token_id": 1, "text_config": {"eos_token_id": [2, 3]}}) == {1, 2, 3}
    assert config_eos_ids({"text_config": None}) == set()


def test_union_of_config_and_generation_config(tmp_path: Path) -> None:
    assert directory_eos_ids(tmp_path) == set()
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 1}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 1]}))
    assert directory_eos_ids(tmp_path) == {1, 7}


@pytest.mark.parametrize("content", ["{", "[]", '{"eos_token_id": ["a"]}', '{"eos_token_id": 1.5}'])
def test_a_broken_config_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(ConfigError, match=r"generation_config\.json"):
        directory_eos_ids(tmp_path)


def test_tokens_are_found_by_text_or_id(smol: TokenizerWrapper) -> None:
    assert token_id(smol, "<|im_end|>") == 2
    assert token_id(smol, 5) == 5
    assert token_id(smol, "12345") == 12345  # no such token, so an id
    assert token_id(smol, "0") == smol.get_vocab()["0"]


@pytest.mark.parametrize("token", ["<none>", -1, 49152, "9999999"])
def test_unknown_tokens_are_errors(smol: TokenizerWrapper, token: str | int) -> None:
    with pytest.raises(TokenizerError, match=str(token)):
        token_id(smol, token)

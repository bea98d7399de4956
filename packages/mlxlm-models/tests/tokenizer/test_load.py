import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from mlxlm_models.chat.tool_calls.formats import TOOL_PARSERS
from mlxlm_models.errors import RemoteCodeError, TokenizerError
from mlxlm_models.tokenizer import load as load_module
from mlxlm_models.tokenizer.load import load_tokenizer
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"


@pytest.fixture(scope="session")
def saved(spm: TokenizerWrapper, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved")
    spm.save_pretrained(directory)
    return directory


@pytest.fixture
def directory(saved: Path, tmp_path: Path) -> Path:
    """A model directory to change: tokenizer and configs."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").write_text('{"model_type": "llama", "eos_token_id": 5}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [6]}')
    return tmp_path


def configure(directory: Path, **entries: Any) -> None:
    file = directory / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def test_loads_what_was_saved(directory: Path, spm: TokenizerWrapper) -> None:
    tokenizer = load_tokenizer(directory)
    text = "the quick [INST] 語"
    assert tokenizer.encode(text) == spm.encode(text)
    assert type(tokenizer.detokenizer) is type(spm.detokenizer)


def test_eos_is_the_union(directory: Path) -> None:
    assert load_tokenizer(str(directory)).eos_token_ids == {2, 5, 6}
    assert load_tokenizer(directory, eos_token_ids=[9]).eos_token_ids == {2, 5, 6, 9}
    ids = load_tokenizer(directory, {"eos_token": "[INST]"}).eos_token_ids
    assert ids == {5, 6, 400}


def test_a_model_type_of_our_own_needs_no_transformers_class(directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "of_our_own"}')
    (directory / "tokenizer_config.json").unlink()
    assert load_tokenizer(directory).decode([1]) == "<s>"


def test_template_from_option_file_or_names(directory: Path) -> None:
    messages = [{"role": "user", "content": "x"}]
    assert not load_tokenizer(directory).has_chat_template
    given = load_tokenizer(directory, {"chat_template": TEMPLATE, "eos_token": None})
    assert given.apply_chat_template(messages, tokenize=False) == "<|im_start|>x<|im_end|>"
    (directory / "chat_template.jinja").write_text("file")
    assert load_tokenizer(directory).apply_chat_template(messages, tokenize=False) == "file"
    (directory / "chat_template.jinja").unlink()
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    configure(directory, chat_template=named)
    tokenizer = load_tokenizer(directory)
    assert tokenizer.apply_chat_template(messages, tokenize=False) == "d"
    assert tokenizer.apply_chat_template(messages, tokenize=False, chat_template="tool_use") == "t"


def test_R42_tool_parser_type(directory: Path) -> None:
    configure(directory, tool_parser_type="mistral")
    assert load_tokenizer(directory).tool_parser is TOOL_PARSERS["mistral"]
    other = load_tokenizer(directory, {"tool_parser_type": "glm47"})
    assert other.tool_parser is TOOL_PARSERS["glm47"]
    with pytest.raises(TokenizerError, match=r"no tool parser 'x'.*json_tools"):
        load_tokenizer(directory, {"tool_parser_type": "x"})


def one_line(directory: Path, **options: Any) -> str:
    with pytest.raises(TokenizerError) as caught:
        load_tokenizer(directory, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_broken_files_are_named(directory: Path) -> None:
    broken = directory / "tokenizer.json"
    broken.write_text(broken.read_text()[:200])
    assert one_line(directory).startswith(f"{broken} is not valid JSON")
    broken.write_text('{"version": "1.0"}')
    assert one_line(directory).startswith(f"{broken}: the tokenizer cannot be read")


def test_a_broken_tokenizer_config_is_named(directory: Path) -> None:
    (directory / "tokenizer_config.json").write_text("{")
    assert one_line(directory).startswith(f"{directory / 'tokenizer_config.json'} is not valid")


def test_no_tokenizer_is_said(tmp_path: Path) -> None:
    assert "has no tokenizer" in one_line(tmp_path)
    assert "not a directory" in one_line(tmp_path / "missing")


def test_missing_sentencepiece_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"")
    monkeypatch.setattr(load_module, "find_spec", lambda name: None)
    assert "mlxlm-models[sentencepiece]" in one_line(tmp_path)


def test_sentencepiece_models_load(sentencepiece_model: Any, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece_model.serialized_model_proto())
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    text = "the quick brown fox"
    ids = load_tokenizer(tmp_path).encode(text, add_special_tokens=False)
    assert ids == sentencepiece_model.encode(text)


def test_remote_code_needs_trust(directory: Path) -> None:
    configure(
        directory,
        tokenizer_class="OwnTokenizer",
        auto_map={"AutoTokenizer": ["own_tokenizer.OwnTokenizer", None]},
    )
    (directory / "own_tokenizer.py").write_text(
        "from transformers import PreTrainedTokenizerFast\n"
        "class OwnTokenizer(PreTrainedTokenizerFast):\n    pass\n"
    )
    (directory / "config.json").unlink()
    with pytest.raises(RemoteCodeError, match="trust_remote_code=True"):
        load_tokenizer(directory)
    for trusting in (
        load_tokenizer(directory, trust_remote_code=True),
        load_tokenizer(directory, {"trust_remote_code": True}),
    ):
        assert type(trusting._tokenizer).__name__ == "OwnTokenizer"

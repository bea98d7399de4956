"""Loading the tokenizer of a model directory."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlxlm_models.chat.tools import choose_tool_parser
from mlxlm_models.errors import RemoteCodeError, TokenizerError

from .backend import import_transformers
from .eos import EosIds, as_ids, directory_eos_ids
from .wrapper import TokenizerWrapper

_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt")
_OTHER_FILES = ("*.tiktoken", "*.model", "tekken.json")


def load_tokenizer(
    path: str | Path,
    tokenizer_config: Mapping[str, Any] | None = None,
    *,
    eos_token_ids: EosIds = None,
    trust_remote_code: bool = False,
) -> TokenizerWrapper:
    """Return the tokenizer in a directory.

    `tokenizer_config` overrides entries of `tokenizer_config.json` (`chat_template`,
    `eos_token`, `tool_parser_type`, …); None leaves an entry as it is. A text ends at the
    tokenizer's EOS, those of `config.json` and `generation_config.json`, and `eos_token_ids`.
    TokenizerError or RemoteCodeError, in one line, where it cannot be loaded.
    """
    directory = Path(path)
    overrides = {k: v for k, v in (tokenizer_config or {}).items() if v is not None}
    trusted = bool(overrides.pop("trust_remote_code", False)) or trust_remote_code
    tool_parser_type = overrides.pop("tool_parser_type", None)
    _check_files(directory)
    eos = directory_eos_ids(directory) | as_ids(eos_token_ids)
    try:
        tokenizer = _from_pretrained(directory, overrides, trusted)
    except Exception as error:  # `tokenizers` raises plain Exception
        raise _explained(directory, error, trusted) from error
    tool_parser_type = tool_parser_type or tokenizer.init_kwargs.get("tool_parser_type")
    choose_tool_parser(None, tool_parser_type)
    return TokenizerWrapper(tokenizer, eos_token_ids=eos, tool_parser_type=tool_parser_type)


def _from_pretrained(directory: Path, overrides: dict[str, Any], trusted: bool) -> Any:
    transformers = import_transformers()
    options = {**overrides, "trust_remote_code": trusted, "local_files_only": True}
    try:
        return transformers.AutoTokenizer.from_pretrained(directory, **options)
    except (KeyError, ValueError, OSError) as error:
        # Model types that only we know: their tokenizer.json says everything by itself.
        if "trust_remote_code" in str(error) or not (directory / "tokenizer.json").is_file():
            raise
        return transformers.PreTrainedTokenizerFast.from_pretrained(directory, **options)


def _check_files(directory: Path) -> None:
    if not directory.is_dir():
        raise TokenizerError(f"{directory} is not a directory with a tokenizer")
    if (directory / "tokenizer.json").is_file():
        return
    found = [name for name in _FILES if (directory / name).is_file()]
    found += [file.name for pattern in _OTHER_FILES for file in directory.glob(pattern)]
    if not found:
        raise TokenizerError(
            f"{directory} has no tokenizer: no tokenizer.json, tokenizer.model or vocabulary file"
        )
    pieces = [name for name in found if name.endswith(".model") and name != "tiktoken.model"]
    if pieces and not (find_spec("sentencepiece") and find_spec("google.protobuf")):
        raise TokenizerError(
            f"{directory / pieces[0]} is a SentencePiece model: "
            "pip install 'mlxlm-models[sentencepiece]' to read it"
        )


def _explained(
    directory: Path, error: Exception, trusted: bool
) -> TokenizerError | RemoteCodeError:
    if "trust_remote_code" in str(error) and not trusted:
        return RemoteCodeError(
            f"the tokenizer in {directory} runs code of its own: "
            "read it, and pass trust_remote_code=True (--trust-remote-code) if you trust it"
        )
    reason = " ".join(str(error).split()) or type(error).__name__
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        file = directory / name
        if not file.is_file():
            continue
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except ValueError as broken:
            return TokenizerError(f"{file} is not valid JSON: {broken}")
    at_fault = directory / "tokenizer.json"
    place = at_fault if at_fault.is_file() else directory
    return TokenizerError(f"{place}: the tokenizer cannot be read: {reason}")

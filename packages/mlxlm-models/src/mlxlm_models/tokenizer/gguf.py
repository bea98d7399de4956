"""Tokenizers from GGUF metadata (the `tokenizer.*` keys)."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlxlm_models.errors import TokenizerError

from .backend import import_transformers
from .gguf_pretokenizers import PRE_TOKENIZERS, PreTokenizer
from .wrapper import TokenizerWrapper

if TYPE_CHECKING:
    from tokenizers import Tokenizer

logger = logging.getLogger(__name__)

UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6
"""`tokenizer.ggml.token_type`; 1 is a normal token, 5 an unused one."""
_MORE_EOS = ("eot_token_id", "eom_token_id")


def tokenizer_from_gguf(metadata: Mapping[str, Any]) -> TokenizerWrapper:
    """Build the tokenizer that a GGUF file's metadata describes.

    Handles `tokenizer.ggml.model` "gpt2" (byte-level BPE, split by `tokenizer.ggml.pre`) and
    "llama" (SentencePiece BPE by scores, with byte fallback). TokenizerError names what is
    missing or unknown.
    """
    read = _Keys(metadata)
    kind = read("model")
    match kind:
        case "gpt2":
            backend, add_bos = _byte_level(read)
        case "llama":
            backend, add_bos = _sentencepiece(read), True
        case None:
            raise TokenizerError("the GGUF file has no tokenizer: no tokenizer.ggml.model")
        case _:
            raise TokenizerError(
                f"tokenizer.ggml.model {kind!r} is not supported: only gpt2 and llama are"
            )
    return _wrap(backend, read, bool(read("add_bos_token", add_bos)))


class _Keys:
    """The entries under `tokenizer.ggml.`."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata
        self.tokens: list[str] = list(self.need("tokens"))
        self.types: list[int] = [int(kind) for kind in self("token_type", [1] * len(self.tokens))]
        if len(self.types) != len(self.tokens):
            raise TokenizerError(
                f"tokenizer.ggml.token_type has {len(self.types)} entries "
                f"for {len(self.tokens)} tokens"
            )

    def __call__(self, key: str, default: Any = None) -> Any:
        return self.metadata.get(f"tokenizer.ggml.{key}", default)

    def need(self, key: str) -> Any:
        if (value := self(key)) is None:
            raise TokenizerError(f"the GGUF file has no tokenizer.ggml.{key}")
        return value

    def token(self, key: str) -> str | None:
        index = int(self(key, -1))
        if index < 0:
            return None
        if index >= len(self.tokens):
            raise TokenizerError(f"tokenizer.ggml.{key} is {index}, beyond the vocabulary")
        return self.tokens[index]

    def vocabulary(self) -> dict[str, int]:
        vocabulary = {token: index for index, token in enumerate(self.tokens)}
        if repeated := len(self.tokens) - len(vocabulary):
            logger.warning("%d tokens of the GGUF file occur twice: the last counts.", repeated)
        return vocabulary


def _byte_level(read: _Keys) -> "tuple[Tokenizer, bool]":
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    rules = _pre_tokenizer(read("pre"))
    merges = [tuple(merge.split(" ", 1)) for merge in read.need("merges")]
    try:
        model = models.BPE(read.vocabulary(), merges, ignore_merges=rules.whole_words)
    except Exception as error:  # `tokenizers` raises plain Exception
        raise TokenizerError(f"tokenizer.ggml.merges do not fit the vocabulary: {error}") from error
    backend = Tokenizer(model)
    splits = [pre_tokenizers.Split(Regex(split), "isolated") for split in rules.splits]
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = decoders.ByteLevel()
    return backend, rules.add_bos


def _pre_tokenizer(name: str | None) -> PreTokenizer:
    if name is None:
        logger.warning("The GGUF file does not say how to split text (tokenizer.ggml.pre).")
        name = "default"
    if name not in PRE_TOKENIZERS:
        raise TokenizerError(
            f"tokenizer.ggml.pre {name!r} is not known. Known: {', '.join(sorted(PRE_TOKENIZERS))}"
        )
    return PRE_TOKENIZERS[name]


def _sentencepiece(read: _Keys) -> "Tokenizer":
    from tokenizers import Tokenizer, decoders, models, normalizers

    vocabulary = read.vocabulary()
    add_space = bool(read("add_space_prefix", True))
    merges = merges_by_score(read.tokens, read.types, read.need("scores"))
    backend = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=merges,
            unk_token=read.token("unknown_token_id"),
            fuse_unk=True,
            byte_fallback=BYTE in read.types,
        )
    )
    spaces: list[Any] = [normalizers.Prepend("▁")] if add_space else []
    backend.normalizer = normalizers.Sequence([*spaces, normalizers.Replace(" ", "▁")])
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if add_space:
        steps.append(decoders.Strip(" ", 1, 0))
    backend.decoder = decoders.Sequence(steps)
    return backend


def merges_by_score(
    tokens: Sequence[str], types: Sequence[int], scores: Sequence[float]
) -> list[tuple[str, str]]:
    """Return BPE merges, best first, for a vocabulary that ranks its pieces by score.

    Control and user-defined tokens are found in the text whole, so nothing merges into them.
    """
    if len(scores) != len(tokens):
        raise TokenizerError(
            f"tokenizer.ggml.scores has {len(scores)} entries for {len(tokens)} tokens"
        )
    pieces = {
        token: float(score)
        for token, kind, score in zip(tokens, types, scores, strict=True)
        if kind not in (UNKNOWN, CONTROL, USER_DEFINED, BYTE)
    }
    best_first = sorted(
        (piece for piece in pieces if len(piece) > 1), key=lambda piece: -pieces[piece]
    )
    return [
        (piece[:cut], piece[cut:])
        for piece in best_first
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]


class _HandOver:
    """Gives transformers the tokenizer itself where it would make a (slow) deep copy."""

    def __init__(self, backend: "Tokenizer") -> None:
        self._backend = backend

    def __deepcopy__(self, memo: object) -> "Tokenizer":
        return self._backend


def _wrap(backend: "Tokenizer", read: _Keys, add_bos: bool) -> TokenizerWrapper:
    from tokenizers import AddedToken

    typed = list(zip(read.tokens, read.types, strict=True))
    control = [token for token, kind in typed if kind in (UNKNOWN, CONTROL)]
    backend.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in control])
    backend.add_tokens(
        [AddedToken(t, normalized=False) for t, kind in typed if kind == USER_DEFINED]
    )
    named = {
        "bos_token": read.token("bos_token_id"),
        "eos_token": read.token("eos_token_id"),
        "unk_token": read.token("unknown_token_id"),
        "pad_token": read.token("padding_token_id"),
    }
    tokenizer = import_transformers().PreTrainedTokenizerFast(
        tokenizer_object=_HandOver(backend),
        clean_up_tokenization_spaces=False,
        add_bos_token=add_bos and named["bos_token"] is not None,
        add_eos_token=bool(read("add_eos_token", False)) and named["eos_token"] is not None,
        **{name: token for name, token in named.items() if token is not None},
    )
    tokenizer.chat_template = _chat_template(read.metadata)
    more_eos = [int(read(key)) for key in _MORE_EOS if read(key) is not None]
    return TokenizerWrapper(tokenizer, eos_token_ids=more_eos)


def _chat_template(metadata: Mapping[str, Any]) -> str | dict[str, str] | None:
    """`tokenizer.chat_template`, and `tokenizer.chat_template.NAME` where a file has several."""
    default = metadata.get("tokenizer.chat_template")
    prefix = "tokenizer.chat_template."
    named = {k.removeprefix(prefix): v for k, v in metadata.items() if k.startswith(prefix)}
    if not named:
        return default
    return {**named, "default": default} if default else named

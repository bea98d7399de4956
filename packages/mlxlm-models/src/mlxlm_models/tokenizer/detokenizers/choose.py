"""Which detokenizer a tokenizer gets: its own decoder definition decides."""

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from mlxlm_models.tokenizer.backend import import_transformers

from .base import StreamingDetokenizer
from .byte_level import ByteLevelDetokenizer, BytePieces
from .cleanup import CleanedDetokenizer
from .decoded import Decode, WholeTextDetokenizer, WindowDetokenizer
from .sentencepiece import SentencePieceDetokenizer, SentencePieceRules, TextPieces

logger = logging.getLogger(__name__)

Factory = Callable[[], StreamingDetokenizer]
_LOCAL = {"WordPiece", "BPEDecoder", "CTC", "Metaspace", "Replace", "Strip", "Fuse"}
"""Decoders whose text for a token depends on the tokens next to it at most."""


def detokenizer_factory(tokenizer: Any) -> Factory:
    """Return what makes fresh detokenizers for a transformers tokenizer.

    Detokenizers of one factory share a growing table of pieces.
    """
    transformers = import_transformers()
    standard = transformers.PreTrainedTokenizerBase.clean_up_tokenization
    cleans = cleans_up_spaces(tokenizer)
    if cleans and type(tokenizer).clean_up_tokenization is not standard:
        return _whole(tokenizer.decode, "its own clean-up of spaces")
    declared = isinstance(tokenizer, transformers.PreTrainedTokenizerFast) and all(
        getattr(type(tokenizer), name) is getattr(transformers.PreTrainedTokenizerFast, name)
        for name in ("decode", "_decode")
    )
    factory = _from_decoder(tokenizer) if declared else _windowed(tokenizer)
    return (lambda: CleanedDetokenizer(factory())) if cleans else factory


def cleans_up_spaces(tokenizer: Any) -> bool:
    """Whether `decode` removes spaces before punctuation (recent transformers: never for BPE)."""
    if not getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return False
    backend = getattr(tokenizer, "backend_tokenizer", None)
    for_bpe = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    is_bpe = backend is not None and type(backend.model).__name__ == "BPE"
    return not is_bpe or bool(getattr(tokenizer, for_bpe, True))


def _from_decoder(tokenizer: Any) -> Factory:
    backend = tokenizer.backend_tokenizer
    steps = None if backend.decoder is None else _flat(json.loads(backend.decoder.__getstate__()))
    kinds = [] if steps is None else [step["type"] for step in steps]
    if kinds[:1] == ["ByteLevel"] and set(kinds[1:]) <= {"Fuse"}:
        byte_pieces = BytePieces(backend.id_to_token)
        return lambda: ByteLevelDetokenizer(byte_pieces)
    if steps is not None and (rules := sentencepiece_rules(steps)) is not None:
        text_pieces = TextPieces(backend.id_to_token, rules)
        return lambda: SentencePieceDetokenizer(text_pieces)
    if steps is None or _is_local(kinds):
        return _windowed(tokenizer)
    return _whole(_uncleaned(tokenizer), f"its decoder: {', '.join(kinds)}")


def _flat(decoder: dict[str, Any]) -> list[dict[str, Any]]:
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for inner in decoder["decoders"] for step in _flat(inner)]


def sentencepiece_rules(steps: Sequence[dict[str, Any]]) -> SentencePieceRules | None:
    """Read `[Replace…|Metaspace] [ByteFallback] [Fuse [Strip]]`; None for anything else."""
    replacements: list[tuple[str, str]] = []
    rules: dict[str, Any] = {"byte_fallback": False}
    stage = 0
    for step in steps:
        match step:
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if (
                stage == 0 and old
            ):
                replacements.append((old, new))
            case {"type": "Metaspace", "replacement": str(mark)} if stage == 0 and not replacements:
                replacements.append((mark, " "))
                if step["prepend_scheme"] != "never":
                    rules["first_piece_drops"] = mark
            case {"type": "ByteFallback"} if stage == 0:
                rules["byte_fallback"] = True
                stage = 1
            case {"type": "Fuse"} if stage <= 2:
                stage = 2
            case {"type": "Strip", "content": str(mark), "start": int(start), "stop": 0} if (
                stage == 2
            ):
                rules |= {"strip_character": mark, "strip_at_start": start}
                stage = 3
            case _:
                return None
    return SentencePieceRules(replacements=tuple(replacements), **rules)


def _is_local(kinds: list[str]) -> bool:
    while kinds and kinds[-1] == "Fuse":
        kinds = kinds[:-1]
    context_sensitive = {"BPEDecoder", "CTC"} & set(kinds)
    return set(kinds) <= _LOCAL - {"Fuse"} and (not context_sensitive or len(kinds) == 1)


def _uncleaned(tokenizer: Any) -> Decode:
    return lambda ids: str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def _windowed(tokenizer: Any) -> Factory:
    def has_token(token: int) -> bool:
        return tokenizer.convert_ids_to_tokens(token) is not None

    return lambda: WindowDetokenizer(_uncleaned(tokenizer), has_token)


def _whole(decode: Decode, reason: str) -> Factory:
    logger.warning(
        "This tokenizer may rewrite any earlier text (%s): "
        "nothing is streamed, the text comes at the end.",
        reason,
    )
    return lambda: WholeTextDetokenizer(decode)

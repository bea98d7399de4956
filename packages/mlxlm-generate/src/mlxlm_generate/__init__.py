"""Turn prompts into tokens, with any MLX model and any tokenizer."""

from typing import TYPE_CHECKING

from mlxlm_cache.lazy import attach

if TYPE_CHECKING:
    from mlxlm_generate.batch.batch_generate import batch_generate as batch_generate
    from mlxlm_generate.batch.constraint import ConstraintError as ConstraintError
    from mlxlm_generate.batch.constraint import TokenConstraint as TokenConstraint
    from mlxlm_generate.batch.generator import BatchGenerator as BatchGenerator
    from mlxlm_generate.batch.request import Request as Request
    from mlxlm_generate.batch.response import BatchResponse as BatchResponse
    from mlxlm_generate.batch.response import BatchStats as BatchStats
    from mlxlm_generate.batch.response import PromptResponse as PromptResponse
    from mlxlm_generate.batch.response import TokenResponse as TokenResponse
    from mlxlm_generate.batch.state_machine import TextPiece as TextPiece
    from mlxlm_generate.batch.state_machine import TextSpan as TextSpan
    from mlxlm_generate.batch.state_machine import TextStateMachine as TextStateMachine
    from mlxlm_generate.batch.stop import StopMatcher as StopMatcher
    from mlxlm_generate.batch.stop import StopSequenceMatcher as StopSequenceMatcher
    from mlxlm_generate.batch.stop import StopState as StopState
    from mlxlm_generate.batch.stop import StopStringMatcher as StopStringMatcher
    from mlxlm_generate.batch.stop import StopText as StopText
    from mlxlm_generate.defaults import GENERATION as GENERATION
    from mlxlm_generate.defaults import GenerationDefaults as GenerationDefaults
    from mlxlm_generate.detokenize import WindowDetokenizer as WindowDetokenizer
    from mlxlm_generate.errors import DraftMismatch as DraftMismatch
    from mlxlm_generate.errors import GenerationError as GenerationError
    from mlxlm_generate.errors import InvalidOption as InvalidOption
    from mlxlm_generate.errors import InvalidPrompt as InvalidPrompt
    from mlxlm_generate.errors import NotSupported as NotSupported
    from mlxlm_generate.logprobs import LogprobsRequest as LogprobsRequest
    from mlxlm_generate.protocols import BareTokenizer as BareTokenizer
    from mlxlm_generate.protocols import Detokenizer as Detokenizer
    from mlxlm_generate.protocols import LogitsProcessor as LogitsProcessor
    from mlxlm_generate.protocols import Model as Model
    from mlxlm_generate.protocols import ProgressCallback as ProgressCallback
    from mlxlm_generate.protocols import Sampler as Sampler
    from mlxlm_generate.protocols import Tokenizer as Tokenizer
    from mlxlm_generate.response import FinishReason as FinishReason
    from mlxlm_generate.response import GenerationResponse as GenerationResponse
    from mlxlm_generate.speculate.drafter import Drafter as Drafter
    from mlxlm_generate.speculate.drafter import Draw as Draw
    from mlxlm_generate.speculate.drafter import Guesses as Guesses
    from mlxlm_generate.speculate.length import DraftLength as DraftLength
    from mlxlm_generate.speculate.model import ModelDrafter as ModelDrafter
    from mlxlm_generate.speculate.ngram import NGramDrafter as NGramDrafter
    from mlxlm_generate.speculate.vocabulary import check_draft_tokenizer as check_draft_tokenizer
    from mlxlm_generate.step import generate_step as generate_step
    from mlxlm_generate.stream import stream_generate as stream_generate
    from mlxlm_generate.streams import generation_stream as generation_stream
    from mlxlm_generate.text import generate as generate
    from mlxlm_generate.text import statistics as statistics
    from mlxlm_generate.wired import wired_limit as wired_limit

__getattr__, __dir__ = attach(
    __name__,
    {
        "batch.batch_generate": ("batch_generate",),
        "batch.constraint": (
            "ConstraintError",
            "TokenConstraint",
        ),
        "batch.generator": ("BatchGenerator",),
        "batch.request": ("Request",),
        "batch.response": (
            "BatchResponse",
            "BatchStats",
            "PromptResponse",
            "TokenResponse",
        ),
        "batch.state_machine": (
            "TextPiece",
            "TextSpan",
            "TextStateMachine",
        ),
        "batch.stop": (
            "StopMatcher",
            "StopSequenceMatcher",
            "StopState",
            "StopStringMatcher",
            "StopText",
        ),
        "defaults": ("GENERATION", "GenerationDefaults"),
        "detokenize": ("WindowDetokenizer",),
        "errors": (
            "DraftMismatch",
            "GenerationError",
            "InvalidOption",
            "InvalidPrompt",
            "NotSupported",
        ),
        "logprobs": ("LogprobsRequest",),
        "protocols": (
            "BareTokenizer",
            "Detokenizer",
            "LogitsProcessor",
            "Model",
            "ProgressCallback",
            "Sampler",
            "Tokenizer",
        ),
        "response": ("FinishReason", "GenerationResponse"),
        "speculate.drafter": ("Drafter", "Draw", "Guesses"),
        "speculate.length": ("DraftLength",),
        "speculate.model": ("ModelDrafter",),
        "speculate.ngram": ("NGramDrafter",),
        "speculate.vocabulary": ("check_draft_tokenizer",),
        "step": ("generate_step",),
        "stream": ("stream_generate",),
        "streams": ("generation_stream",),
        "text": ("generate", "statistics"),
        "wired": ("wired_limit",),
    },
)

"""Turn prompts into tokens, with any MLX model and any tokenizer."""

from typing import TYPE_CHECKING

from mlxlm_cache.lazy import attach

if TYPE_CHECKING:
    from mlxlm_generate.defaults import GENERATION as GENERATION
    from mlxlm_generate.defaults import GenerationDefaults as GenerationDefaults
    from mlxlm_generate.detokenize import WindowDetokenizer as WindowDetokenizer
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
    from mlxlm_generate.step import generate_step as generate_step
    from mlxlm_generate.stream import stream_generate as stream_generate
    from mlxlm_generate.streams import generation_stream as generation_stream
    from mlxlm_generate.text import generate as generate
    from mlxlm_generate.text import statistics as statistics
    from mlxlm_generate.wired import wired_limit as wired_limit

__getattr__, __dir__ = attach(
    __name__,
    {
        "defaults": ("GENERATION", "GenerationDefaults"),
        "detokenize": ("WindowDetokenizer",),
        "errors": ("GenerationError", "InvalidOption", "InvalidPrompt", "NotSupported"),
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
        "step": ("generate_step",),
        "stream": ("stream_generate",),
        "streams": ("generation_stream",),
        "text": ("generate", "statistics"),
        "wired": ("wired_limit",),
    },
)

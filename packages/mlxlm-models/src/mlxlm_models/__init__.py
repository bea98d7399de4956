"""Language-model architectures, loading, tokenizers and chat templates on MLX."""

from typing import TYPE_CHECKING

from mlxlm_cache.lazy import attach

if TYPE_CHECKING:
    from mlxlm_models.adapters import AdapterConfig as AdapterConfig
    from mlxlm_models.adapters import apply_adapters as apply_adapters
    from mlxlm_models.adapters import read_adapter_config as read_adapter_config
    from mlxlm_models.architecture import Architecture as Architecture
    from mlxlm_models.chat.deltas import ReasoningDelta as ReasoningDelta
    from mlxlm_models.chat.deltas import TextDelta as TextDelta
    from mlxlm_models.chat.reasoning import ReasoningStream as ReasoningStream
    from mlxlm_models.chat.reasoning import ReasoningText as ReasoningText
    from mlxlm_models.chat.reasoning import read_reasoning as read_reasoning
    from mlxlm_models.chat.reasoning_budget import ReasoningBudget as ReasoningBudget
    from mlxlm_models.chat.suffix import PromptMismatchError as PromptMismatchError
    from mlxlm_models.chat.suffix import common_prefix_length as common_prefix_length
    from mlxlm_models.chat.suffix import prompt_suffix as prompt_suffix
    from mlxlm_models.chat.templates import default_chat_template as default_chat_template
    from mlxlm_models.chat.templates import use_default_chat_template as use_default_chat_template
    from mlxlm_models.chat.thinking import Thinking as Thinking
    from mlxlm_models.chat.tool_calls.call import ToolCall as ToolCall
    from mlxlm_models.chat.tool_calls.call import ToolCallError as ToolCallError
    from mlxlm_models.chat.tool_calls.formats import TOOL_PARSERS as TOOL_PARSERS
    from mlxlm_models.chat.tool_calls.parser import ToolParser as ToolParser
    from mlxlm_models.chat.tool_calls.stream import ArgumentsDelta as ArgumentsDelta
    from mlxlm_models.chat.tool_calls.stream import ToolCallBegin as ToolCallBegin
    from mlxlm_models.chat.tool_calls.stream import ToolCallStream as ToolCallStream
    from mlxlm_models.chat.tool_calls.stream import ToolCallText as ToolCallText
    from mlxlm_models.chat.tool_calls.stream import read_tool_calls as read_tool_calls
    from mlxlm_models.config import ModelConfig as ModelConfig
    from mlxlm_models.config_file import load_config as load_config
    from mlxlm_models.cpu_policy import CpuWeights as CpuWeights
    from mlxlm_models.errors import ConfigError as ConfigError
    from mlxlm_models.errors import ModelError as ModelError
    from mlxlm_models.errors import RemoteCodeError as RemoteCodeError
    from mlxlm_models.errors import SourceError as SourceError
    from mlxlm_models.errors import TokenizerError as TokenizerError
    from mlxlm_models.errors import UnknownArchitecture as UnknownArchitecture
    from mlxlm_models.errors import WeightsError as WeightsError
    from mlxlm_models.gguf import GGUFCheckpoint as GGUFCheckpoint
    from mlxlm_models.gguf import read_gguf as read_gguf
    from mlxlm_models.loading import load as load
    from mlxlm_models.loading import load_model as load_model
    from mlxlm_models.registry import list_architectures as list_architectures
    from mlxlm_models.registry import register_architecture as register_architecture
    from mlxlm_models.sources import Source as Source
    from mlxlm_models.sources import resolve as resolve
    from mlxlm_models.tokenizer.load import load_tokenizer as load_tokenizer
    from mlxlm_models.tokenizer.wrapper import TokenizerWrapper as TokenizerWrapper

__getattr__, __dir__ = attach(
    __name__,
    {
        "adapters": ("AdapterConfig", "apply_adapters", "read_adapter_config"),
        "architecture": ("Architecture",),
        "chat.deltas": ("ReasoningDelta", "TextDelta"),
        "chat.reasoning": ("ReasoningStream", "ReasoningText", "read_reasoning"),
        "chat.reasoning_budget": ("ReasoningBudget",),
        "chat.suffix": ("PromptMismatchError", "common_prefix_length", "prompt_suffix"),
        "chat.templates": ("default_chat_template", "use_default_chat_template"),
        "chat.thinking": ("Thinking",),
        "chat.tool_calls.call": ("ToolCall", "ToolCallError"),
        "chat.tool_calls.formats": ("TOOL_PARSERS",),
        "chat.tool_calls.parser": ("ToolParser",),
        "chat.tool_calls.stream": (
            "ArgumentsDelta",
            "ToolCallBegin",
            "ToolCallStream",
            "ToolCallText",
            "read_tool_calls",
        ),
        "config": ("ModelConfig",),
        "config_file": ("load_config",),
        "cpu_policy": ("CpuWeights",),
        "errors": (
            "ConfigError",
            "ModelError",
            "RemoteCodeError",
            "SourceError",
            "TokenizerError",
            "UnknownArchitecture",
            "WeightsError",
        ),
        "gguf": ("GGUFCheckpoint", "read_gguf"),
        "loading": ("load", "load_model"),
        "registry": ("list_architectures", "register_architecture"),
        "sources": ("Source", "resolve"),
        "tokenizer.load": ("load_tokenizer",),
        "tokenizer.wrapper": ("TokenizerWrapper",),
    },
)

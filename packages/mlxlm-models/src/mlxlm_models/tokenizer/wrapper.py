"""The tokenizer that generation, chat and server work with."""

from collections.abc import Sequence
from typing import Any

from mlxlm_models.chat.template_facts import TemplateFacts, read_template
from mlxlm_models.chat.templates import apply_chat_template, chat_template_source
from mlxlm_models.chat.thinking import Thinking, infer_thinking
from mlxlm_models.chat.tool_calls.parser import ToolParser
from mlxlm_models.chat.tools import choose_tool_parser

from .detokenizers.base import StreamingDetokenizer
from .detokenizers.choose import Factory, detokenizer_factory
from .eos import EosIds, as_ids, token_id


class TokenizerWrapper:
    """A transformers tokenizer, and what generation wants to know beyond it.

    Attributes that are not defined here are the wrapped tokenizer's, to read and to set.
    `eos_token_ids` are added to the tokenizer's own. `tool_parser_type` names a tool parser;
    without one the chat template decides.
    """

    _tokenizer: Any
    _eos_token_ids: set[int]
    _tool_parser_type: str | None
    _detokenizers: tuple[object, Factory] | None

    def __init__(
        self,
        tokenizer: Any,
        *,
        eos_token_ids: EosIds = None,
        tool_parser_type: str | None = None,
    ) -> None:
        own_eos = as_ids(getattr(tokenizer, "eos_token_id", None))
        vars(self).update(
            _tokenizer=tokenizer,
            _eos_token_ids=own_eos | as_ids(eos_token_ids),
            _tool_parser_type=tool_parser_type,
            _detokenizers=None,
        )

    def __getattr__(self, name: str) -> Any:
        if name == "_tokenizer" or name.startswith("__"):  # asked for while unpickling
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) or isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            setattr(self._tokenizer, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_detokenizers": None}

    def __len__(self) -> int:
        return len(self._tokenizer)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._tokenizer(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._tokenizer).__name__})"

    def encode(self, text: str, add_special_tokens: bool = True, **kwargs: Any) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens, **kwargs))

    def decode(self, tokens: int | Sequence[int], **kwargs: Any) -> str:
        return str(self._tokenizer.decode(tokens, **kwargs))

    @property
    def vocab_size(self) -> int:
        """The size of the base vocabulary, added tokens not counted; `len()` counts them."""
        return int(self._tokenizer.vocab_size)

    def get_vocab(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        return vocabulary

    @property
    def eos_token_ids(self) -> set[int]:
        return self._eos_token_ids

    @eos_token_ids.setter
    def eos_token_ids(self, ids: EosIds) -> None:
        object.__setattr__(self, "_eos_token_ids", as_ids(ids))

    def add_eos_token(self, token: str | int) -> None:
        """Also end a text at `token`, a token or its id; TokenizerError if there is none."""
        self._eos_token_ids.add(token_id(self._tokenizer, token))

    @property
    def detokenizer(self) -> StreamingDetokenizer:
        """A new streaming detokenizer at each access."""
        tokenizer = self._tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        decoder = getattr(backend, "decoder", None)
        key = (
            None if decoder is None else decoder.__getstate__(),
            getattr(tokenizer, "clean_up_tokenization_spaces", False),
        )
        if self._detokenizers is None or self._detokenizers[0] != key:
            object.__setattr__(self, "_detokenizers", (key, detokenizer_factory(tokenizer)))
        assert self._detokenizers is not None
        return self._detokenizers[1]()

    @property
    def has_chat_template(self) -> bool:
        return bool(self._tokenizer.chat_template)

    def apply_chat_template(
        self,
        conversation: Any,
        tools: Sequence[Any] | None = None,
        *,
        tokenize: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Render a conversation: token ids, or text with `tokenize=False`.

        Keywords are transformers' own, or variables of the template. TokenizerError where
        there is no template, or it is broken or refuses the messages.
        """
        return apply_chat_template(
            self._tokenizer, conversation, tools, tokenize=tokenize, **kwargs
        )

    @property
    def thinking(self) -> Thinking | None:
        """How the chat template lets the model think, or None."""
        facts = self._template_facts()
        if facts is None:
            return None
        return infer_thinking(facts, lambda token: token in self._tokenizer.get_vocab())

    @property
    def has_thinking(self) -> bool:
        return self.thinking is not None

    def thinking_state(self, enable_thinking: bool | None = None) -> str:
        """Say in a few words whether the model thinks, given what the caller asked for."""
        return self.thinking.state(enable_thinking) if self.thinking else "none"

    @property
    def think_start(self) -> str | None:
        return self.thinking.start if self.thinking else None

    @property
    def think_end(self) -> str | None:
        return self.thinking.end if self.thinking else None

    @property
    def _parser(self) -> ToolParser | None:
        return choose_tool_parser(self._template_facts(for_tools=True), self._tool_parser_type)

    @property
    def has_tool_calling(self) -> bool:
        return self._parser is not None

    @property
    def tool_parser(self) -> ToolParser | None:
        """What reads this model's tool calls: `tool_parser(text, tools)`, or a stream of it."""
        return self._parser

    @property
    def tool_call_start(self) -> str | None:
        return self._parser.start if self._parser else None

    @property
    def tool_call_end(self) -> str | None:
        return self._parser.end if self._parser else None

    def _template_facts(self, for_tools: bool = False) -> TemplateFacts | None:
        source = chat_template_source(self._tokenizer, for_tools=for_tools)
        return None if source is None else read_template(source)

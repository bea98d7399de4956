"""A server whose model says what a test wants: a tiny one, and a script for its tokens."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import pytest
from anthropic import Anthropic
from mlxlm_generate import BatchGenerator, Request
from mlxlm_models import TokenizerWrapper
from mlxlm_models.registry import get_architecture
from mlxlm_models.tokenizer.backend import import_transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

TEMPLATE = """\
{%- if tools %}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}

<tool_call>
{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}
</tool_call>
{%- endfor %}
{%- if not (loop.last and message.role == "assistant" and not add_generation_prompt) %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""

CONFIG = {
    "model_type": "llama",
    "vocab_size": 257,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


def byte_tokenizer() -> TokenizerWrapper:
    """Every byte is a token, so that markers and characters come in pieces."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    fast = import_transformers().PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=backend, eos_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    return TokenizerWrapper(tokenizer)


@dataclass
class Script:
    """What the next answers say. Where a budget closes the reasoning, they go on after it."""

    tokenizer: TokenizerWrapper
    text: str = "Hello."
    prompts: list[str] = field(default_factory=list)
    """The prompts that came, the latest last."""

    def processor(self, prompt: Sequence[int]) -> Callable[[mx.array, mx.array], mx.array]:
        self.prompts.append(self.tokenizer.decode(list(prompt)))
        close = self.tokenizer.encode("</think>", add_special_tokens=False)
        ids = [*self.tokenizer.encode(self.text, add_special_tokens=False)]
        ids += sorted(self.tokenizer.eos_token_ids)
        script_close = _after(ids, close)

        def force(history: mx.array, logits: mx.array) -> mx.array:
            said = history[len(prompt) :].tolist()
            at = len(said)
            closed = _after(said, close)
            if closed is not None and script_close is not None:
                at = script_close + len(said) - closed
            token = ids[min(at, len(ids) - 1)]
            return mx.where(mx.arange(logits.shape[-1]) == token, logits + 1e4, logits)

        return force


def _after(ids: Sequence[int], part: Sequence[int]) -> int | None:
    """Return where a part of ids ends, None where there is none."""
    size = len(part)
    ends = (i + size for i in range(len(ids) - size + 1) if list(ids[i : i + size]) == list(part))
    return next(ends, None)


@pytest.fixture(scope="session")
def script() -> Script:
    return Script(byte_tokenizer())


@pytest.fixture(scope="session")
def bytewise(script: Script) -> tuple[Any, Any]:
    mx.random.seed(0)
    model, _ = get_architecture("llama").create(CONFIG)
    mx.eval(model.parameters())
    return model, script.tokenizer


@pytest.fixture(scope="session")
def scripted(
    serving: Callable[..., Any], bytewise: tuple[Any, Any], script: Script
) -> Iterator[Any]:
    with serving(bytewise, make_generator=forced(script)) as live:
        yield live


@pytest.fixture
def anthropic(scripted: Any) -> Iterator[Anthropic]:
    with Anthropic(base_url=scripted.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


def forced(script: Script) -> type[BatchGenerator]:
    class Forced(BatchGenerator):
        def submit(self, requests: Sequence[Request]) -> list[int]:
            return super().submit([self._scripted(request) for request in requests])

        def _scripted(self, request: Request) -> Request:
            prompt = [*(request.history or ()), *request.prompt]
            processors = [*(request.logits_processors or ()), script.processor(prompt)]
            return replace(request, logits_processors=processors)

    return Forced


@pytest.fixture(scope="session")
def read_sse() -> Callable[[bytes], list[tuple[str | None, Any]]]:
    """Read a whole stream strictly: events of known fields, each with data, each ended."""

    def read(content: bytes) -> list[tuple[str | None, Any]]:
        text = content.decode()  # UTF-8, or it is no event stream
        assert "\r" not in text
        assert text.endswith("\n\n")
        events = []
        for block in text[:-2].split("\n\n"):
            fields: dict[str, str] = {}
            for line in block.split("\n"):
                name, colon, value = line.partition(":")
                assert colon, f"a line without a colon: {line!r}"
                if not name:
                    continue
                assert name in ("event", "data", "id", "retry")
                assert name not in fields
                fields[name] = value.removeprefix(" ")
            if fields:
                data = fields["data"]
                events.append((fields.get("event"), data if data == "[DONE]" else json.loads(data)))
        return events

    return read

import pytest
from mlxlm_models.chat.template_facts import read_template
from mlxlm_models.chat.thinking import Thinking, infer_thinking

QWEN3 = (
    "{%- for m in messages %}{{ m.content.split('</think>')[-1] }}{%- endfor %}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)
SWITCH_ONLY = "{% if enable_thinking %}deep{% endif %}"


@pytest.mark.parametrize(
    ("template", "vocabulary", "expected"),
    [
        (QWEN3, set(), Thinking("<think>", "</think>", switchable=True)),
        ("{{ '<think>\\n' }}", set(), Thinking("<think>", "</think>", switchable=False)),
        (
            "<|channel>thought\n",
            set(),
            Thinking("<|channel>thought", "<channel|>", switchable=False),
        ),
        (
            SWITCH_ONLY,
            {"<longcat_think>", "</longcat_think>"},
            Thinking("<longcat_think>", "</longcat_think>", switchable=True),
        ),
        (SWITCH_ONLY, set(), None),
        (
            "<|channel|>analysis<|message|>{{ thinking }}<|end|>",
            set(),
            Thinking("<|channel|>analysis<|message|>", "<|end|>", switchable=False),
        ),
        ("{{ split('[/THINK]') }}", set(), Thinking("[THINK]", "[/THINK]", switchable=False)),
        ("<|user|>{{ x }}<|end|>", set(), None),
        (
            "{{ '<|open|>' + tag + '<|sep|>' + '<|close|>' }}{{ open('think') }}",
            set(),
            Thinking("<|open|>think<|sep|>", "<|close|>think<|sep|>", switchable=False),
        ),
        ("{{ messages }}", {"<think>", "</think>"}, None),
        ("{# <think> enable_thinking #}x", {"<think>", "</think>"}, None),
    ],
)
def test_R41_the_template_decides(
    template: str, vocabulary: set[str], expected: Thinking | None
) -> None:
    assert infer_thinking(read_template(template), vocabulary.__contains__) == expected


def test_R41_the_state_is_told() -> None:
    switchable = Thinking("<think>", "</think>", switchable=True)
    assert switchable.state(True) == "on"
    assert switchable.state(False) == "off"
    assert "default" in switchable.state()
    fixed = Thinking("<think>", "</think>", switchable=False)
    assert fixed.state() == fixed.state(False) == "decided by the template"


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|assistant|><think>\n", True),
        ("<think>", True),
        ("<|assistant|><think>\n\n</think>\n\n", False),
        ("<|user|>What is <think>?<|assistant|>", False),
    ],
)
def test_whether_a_prompt_opens_the_reasoning(prompt: str, opened: bool) -> None:
    assert Thinking("<think>", "</think>", switchable=True).opened_by(prompt) is opened

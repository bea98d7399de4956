"""Whether and how a model thinks before it answers, by its chat template."""

from collections.abc import Callable
from dataclasses import dataclass

from .template_facts import TemplateFacts

SWITCH = "enable_thinking"


@dataclass(frozen=True)
class Thinking:
    start: str
    end: str
    switchable: bool
    """The template reads `enable_thinking`."""

    @property
    def again(self) -> bool:
        """Reasoning may come between texts too: its start is no word that a text may mention."""
        return self.start.startswith("<|")

    def state(self, enable_thinking: bool | None = None) -> str:
        """Say in a few words what a prompt does, given what the caller asked for."""
        if not self.switchable:
            return "decided by the template"
        if enable_thinking is None:
            return "the template's default (switch: enable_thinking)"
        return "on" if enable_thinking else "off"

    def opened_by(self, prompt: str) -> bool:
        """Return whether a rendered prompt, or its end, leaves off where reasoning begins."""
        return prompt.rstrip().endswith(self.start)


MARKERS = (
    ("<think>", "</think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<|channel|>analysis<|message|>", "<|end|>"),  # gpt-oss
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<thought>", "</thought>"),  # EXAONE Deep
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),  # Apriel
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # Kimi K3
)
_MENTIONED_AS = {
    "<|channel|>analysis<|message|>": (("<|channel|>analysis<|message|>",),),  # its end ends all
    "<|open|>think<|sep|>": (("<|open|>", "<|close|>", "<|sep|>", "think"),),  # put together there
}


def infer_thinking(facts: TemplateFacts, is_token: Callable[[str], bool]) -> Thinking | None:
    """Return how the template handles thinking, None if it does not.

    A marker counts when the template writes or looks for it. The vocabulary alone never
    switches thinking on; it only tells which markers a template means that has a switch
    and no markers.
    """
    switchable = SWITCH in facts.variables
    for start, end in MARKERS:
        ways = _MENTIONED_AS.get(start, ((start,), (end,)))
        if any(all(map(facts.mentions, words)) for words in ways):
            return Thinking(start, end, switchable)
    if switchable:
        for start, end in MARKERS:
            if is_token(start) and is_token(end):
                return Thinking(start, end, switchable)
    return None

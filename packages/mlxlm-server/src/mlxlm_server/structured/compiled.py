"""Grammars over a tokenizer's tokens, and the constraint that follows one answer."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mlx.core as mx

from mlxlm_server.structured.grammar import Grammar, GrammarError

_STACK = 2**28
"""Bytes, of address space. llguidance recurses over rules and references."""
WHITE_SPACE = r"\n?[ \t]{0,64}"
"""Between the parts of JSON. Bounded, since models that get lost go on with it for ever."""


class Vocabulary:
    """A tokenizer as llguidance knows it. GrammarError where it can't, or isn't installed."""

    def __init__(self, tokenizer: Any) -> None:
        try:
            from llguidance import LLParserLimits, LLTokenizer
        except ImportError as error:
            raise GrammarError(
                "Structured output needs llguidance: pip install 'mlxlm-server[structured]'."
            ) from error
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise GrammarError(
                "Structured output needs a fast tokenizer (tokenizer.json), and this model's is "
                f"a {type(getattr(tokenizer, '_tokenizer', tokenizer)).__name__}."
            )
        parts = json.loads(backend.to_str())
        parts |= {"truncation": None, "padding": None}
        self.eos: Collection[int] = frozenset(tokenizer.eos_token_ids)
        self.size = max([len(tokenizer) - 1, *self.eos, *tokenizer.get_vocab().values()]) + 1
        self.limits = LLParserLimits(
            initial_lexer_fuel=1_000_000,  # about 20 ms
            step_lexer_fuel=100_000,  # about 7 ms for a token
            step_max_items=50_000,  # about 3 ms for a token
            max_lexer_states=20_000,  # about 40 MB
            max_grammar_size=50_000,
            verbose_errors=False,
        )
        try:
            self.ll = LLTokenizer(
                json.dumps(parts), n_vocab=self.size, eos_token=sorted(self.eos) or None
            )
        except ValueError as error:
            raise GrammarError(
                f"Structured output is not possible with this model's tokenizer: {error}"
            ) from error

    @cached_property
    def special(self) -> Any:
        """The ids of tokens that no text has in it, an array of NumPy."""
        import numpy as np

        return np.array(
            [token for token in range(self.size) if self.ll.is_special_token(token)], dtype=np.int64
        )

    @cached_property
    def texts(self) -> list[bytes]:
        """What each token stands for."""
        return [self.ll.decode_bytes([token]) for token in range(self.size)]


@dataclass(frozen=True)
class Compiled:
    """A grammar that is ready; each answer has a constraint of its own."""

    vocabulary: Vocabulary
    matcher: Any

    def constraint(self) -> "GrammarConstraint":
        return GrammarConstraint(self)


class Grammars:
    """Compiles grammars for one tokenizer, and keeps the `most` latest.

    All of it happens in threads of its own, with a stack that is large enough.
    """

    def __init__(self, tokenizer: Any, most: int = 32) -> None:
        self._tokenizer, self._most = tokenizer, most
        self._compiled: OrderedDict[Grammar, Compiled] = OrderedDict()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(2, "grammars")

    def constraint(self, grammar: Grammar) -> "GrammarConstraint":
        """Return what follows one answer, as `Request(constraint=…)` takes it; GrammarError."""
        return self.submit(grammar).result().constraint()

    def submit(self, grammar: Grammar) -> "Future[Compiled]":
        """Compile a grammar, or look it up."""
        with _stack_of(_STACK):  # a thread is started here, if at all
            return self._threads.submit(self._get, grammar)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _get(self, grammar: Grammar) -> Compiled:
        with self._lock:
            known = self._compiled.get(grammar)
            if known is not None:
                self._compiled.move_to_end(grammar)
                return known
            vocabulary = self._vocabulary  # made once, while the other thread waits
        made = Compiled(vocabulary, compile_grammar(grammar, vocabulary))
        with self._lock:
            self._compiled[grammar] = made
            while len(self._compiled) > self._most:
                self._compiled.popitem(last=False)
        return made

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self._tokenizer)


class GrammarConstraint:
    """Follows one answer: a `TokenConstraint` of mlxlm-generate.

    Where the answer may end, the tokenizer's eos tokens are allowed; where it must, only they.
    """

    def __init__(self, compiled: Compiled) -> None:
        self._vocabulary = compiled.vocabulary
        self._fresh = compiled.matcher
        self._matcher = compiled.matcher.deep_copy()
        self._tokens: list[int] = []
        self._after = 0
        """Of the tokens, those that came with and after the end."""

    @property
    def complete(self) -> bool:
        """Whether the answer may end here."""
        return bool(self._matcher.is_accepting())

    def allowed(self) -> Any:
        """Return which tokens may come next, a bool array of NumPy (V,)."""
        import numpy as np

        packed = self._matcher.compute_bitmask()
        self._check()
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
        allowed = bits[: self._vocabulary.size].view(np.bool_)
        special = self._vocabulary.special
        wrong = [int(t) for t in special[allowed[special]] if not self._may_be_special(int(t))]
        return self._as_text(allowed, wrong) if wrong else allowed

    def _may_be_special(self, token: int) -> bool:
        if token in self._vocabulary.eos and self._matcher.is_accepting():
            return True
        return bool(self._matcher.validate_tokens([token]) == 1)

    def _as_text(self, allowed: Any, wrong: list[int]) -> Any:
        """Repair a mask: where a text must come that is a special token's, it isn't that token."""
        allowed = allowed.copy()
        allowed[wrong] = False
        if not allowed.any():
            due, special = bytes(self._matcher.compute_ff_bytes()), set(self._vocabulary.special)
            for token, text in enumerate(self._vocabulary.texts):
                if text and due.startswith(text) and token not in special:
                    allowed[token] = True
        return allowed

    def mask(self) -> mx.array:
        """Return which tokens may come next, bool (V,). GrammarError where a limit is met."""
        return mx.array(self.allowed())

    def advance(self, token: int, /) -> None:
        """Take note of a token; GrammarError for one that may not come."""
        self._tokens.append(token)
        if self._after or (token in self._vocabulary.eos and self._matcher.is_accepting()):
            self._after += 1
        elif not self._matcher.consume_token(token):
            self._check()

    def rollback(self, n: int, /) -> None:
        """Forget the latest `n` tokens."""
        del self._tokens[len(self._tokens) - n :]
        after = min(n, self._after)
        self._after -= after
        if self._matcher.is_error():  # which it never leaves
            self._matcher = self._fresh.deep_copy()
            self._matcher.consume_tokens(self._tokens[: len(self._tokens) - self._after])
        else:
            self._matcher.rollback(n - after)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarError(f"The answer left its grammar: {_reason(self._matcher)}")


def compile_grammar(grammar: Grammar, vocabulary: Vocabulary) -> Any:
    """Return an `LLMatcher` at its beginning. GrammarError says why there is none."""
    from llguidance import LLMatcher

    try:
        if grammar.kind == "json_schema":
            source = LLMatcher.grammar_from_json_schema(
                grammar.text, overrides={"whitespace_pattern": WHITE_SPACE}
            )
        elif grammar.kind == "regex":
            source = LLMatcher.grammar_from_regex(grammar.text)
        elif grammar.kind == "lark":
            source = LLMatcher.grammar_from_lark(grammar.text)
        else:
            source = LLMatcher.grammar_from_lark(_as_lark(grammar.text))
    except ValueError as error:
        raise GrammarError(str(error)) from error
    matcher = LLMatcher(vocabulary.ll, source, limits=vocabulary.limits, log_level=0)
    matcher.compute_bitmask()  # builds what all answers share, and meets what is endless
    if matcher.is_error():
        raise GrammarError(_reason(matcher))
    return matcher


def _as_lark(text: str) -> str:
    from llguidance.gbnf_to_lark import gbnf_to_lark, is_lark_syntax

    if is_lark_syntax(text) or "::=" not in text:
        return text
    convert: Callable[[str], str] = gbnf_to_lark
    try:
        return convert(text)
    except Exception as error:  # it raises that class itself
        raise GrammarError(f"This is no GBNF: {' '.join(str(error).split())[:300]}") from error


def _reason(matcher: Any) -> str:
    """Return the first line of an error, and what regular expressions say after the place."""
    text = str(matcher.get_error()).strip()
    if text.startswith("NoExtension"):
        return "no text can be derived from it"
    first, *others = text.splitlines() or [""]
    more = [line for line in others if line.startswith("error:")]
    return " ".join([first, *more])[:300]


class _stack_of:
    """Threads that are started inside have a stack of `size` bytes."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> None:
        self._before = threading.stack_size(self._size)

    def __exit__(self, *error: object) -> None:
        threading.stack_size(self._before)

"""Which stored token sequences share a prefix with a given one.

A radix tree: a chain of tokens without a branch is one node, so that size and depth
follow the number of sequences, not their length (Morrison, PATRICIA, J. ACM 1968).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class PromptTrieResult:
    """What is stored near some tokens.

    `shorter` is the longest stored sequence that these tokens go on from. `longer` is the
    shortest one that has more tokens than the `common_prefix`, their number in common.
    """

    model: Any
    exact: list[int] | None
    shorter: list[int] | None
    longer: list[int] | None
    common_prefix: int


@dataclass
class _Node:
    edge: Tokens  # from the parent to here
    children: dict[int, "_Node"] = field(default_factory=dict)  # by the first token of its edge
    stored: bool = False
    value: Any = None


class PromptTrie:
    """Values by model and token sequence. A model is any hashable key."""

    def __init__(self) -> None:
        self._roots: dict[Any, _Node] = {}

    def add(self, model: Any, tokens: Sequence[int], value: Any) -> Any:
        """Store `value`; return the one it replaces, or None."""
        node = self._roots.setdefault(model, _Node(()))
        rest = tuple(tokens)
        while rest:
            child = node.children.get(rest[0])
            if child is None:
                child = node.children[rest[0]] = _Node(rest)
            n = common_length(child.edge, rest)
            if n < len(child.edge):
                child = _split(node, child, n)
            node, rest = child, rest[n:]
        replaced = node.value
        node.stored, node.value = True, value
        return replaced

    def get(self, model: Any, tokens: Sequence[int]) -> Any:
        """Return the value of exactly these tokens, or raise KeyError."""
        return self._path(model, tokens)[-1].value

    def pop(self, model: Any, tokens: Sequence[int]) -> Any:
        """Remove and return the value of exactly these tokens, or raise KeyError."""
        path = self._path(model, tokens)
        node = path[-1]
        value = node.value
        node.stored, node.value = False, None
        if not node.children and len(path) > 1:
            del path[-2].children[node.edge[0]]
            path.pop()
        self._tidy(model, path)
        return value

    def pop_prefixes(self, model: Any, tokens: Sequence[int]) -> list[tuple[int, Any]]:
        """Remove the sequences that `tokens` go on from; return their lengths and values."""
        found = self.prefixes(model, tokens)
        for length, _ in found:
            self.pop(model, tokens[:length])
        return found

    def prefixes(self, model: Any, tokens: Sequence[int]) -> list[tuple[int, Any]]:
        """Return length and value of each sequence that `tokens` go on from, shortest first."""
        nodes, _ = self._walk(model, tuple(tokens))
        return [(n, node.value) for n, node in nodes if node.stored and n < len(tokens)]

    def search(self, model: Any, tokens: Sequence[int]) -> PromptTrieResult:
        """Return what is stored near `tokens`."""
        wanted = tuple(tokens)
        nodes, common = self._walk(model, wanted)
        shorter = [n for n, node in nodes if node.stored and n < len(wanted)]
        at, last = nodes[-1] if nodes else (0, None)
        exact = last is not None and last.stored and at == len(wanted)
        longer = None
        if last is not None and common > 0:
            below = [last.children[wanted[at]]] if common > at else last.children.values()
            extensions = (edge for child in below for edge in _stored_below(child))
            nearest = min(extensions, key=len, default=None)
            longer = None if nearest is None else [*wanted[:at], *nearest]
        return PromptTrieResult(
            model=model,
            exact=list(wanted) if exact else None,
            shorter=list(wanted[: shorter[-1]]) if shorter else None,
            longer=longer,
            common_prefix=common,
        )

    def candidates(self, model: Any, tokens: Sequence[int]) -> list[tuple[Any, int, int]]:
        """Return (value, stored length, how many of `tokens` it may serve), the best first.

        One token is always left to be served by nobody. Where the stored length is more,
        the value serves only if it can be cut.
        """
        most, result = len(tokens) - 1, self.search(model, tokens)
        found = [(value, n, n) for n, value in self.prefixes(model, tokens)]
        for stored in (result.exact, result.longer):
            if stored is not None:
                length = min(most, result.common_prefix)
                found.append((self.get(model, stored), len(stored), length))
        found = [candidate for candidate in found if candidate[2] > 0]
        return sorted(found, key=lambda candidate: (-candidate[2], candidate[1]))

    def _walk(self, model: Any, tokens: Tokens) -> tuple[list[tuple[int, _Node]], int]:
        """Return the nodes that `tokens` pass, each with its depth, and how many tokens match."""
        node = self._roots.get(model)
        if node is None:
            return [], 0
        depth, nodes = 0, [(0, node)]
        while depth < len(tokens):
            child = node.children.get(tokens[depth])
            if child is None:
                break
            n = common_length(child.edge, tokens[depth : depth + len(child.edge)])
            if n < len(child.edge):
                return nodes, depth + n
            depth, node = depth + n, child
            nodes.append((depth, node))
        return nodes, depth

    def _path(self, model: Any, tokens: Sequence[int]) -> list[_Node]:
        """Return the nodes down to a stored sequence, or raise KeyError."""
        nodes, _ = self._walk(model, tuple(tokens))
        if not nodes or nodes[-1][0] != len(tokens) or not nodes[-1][1].stored:
            raise KeyError((model, list(tokens)))
        return [node for _, node in nodes]

    def _tidy(self, model: Any, path: list[_Node]) -> None:
        """Drop an empty root, and join a node that no longer branches with its child."""
        node = path[-1]
        if len(path) == 1:
            if not (node.children or node.stored):
                del self._roots[model]
        elif not node.stored and len(node.children) == 1:
            (child,) = node.children.values()
            child.edge = node.edge + child.edge
            path[-2].children[node.edge[0]] = child


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many first items are equal, by bisection: slices compare fast."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _split(parent: _Node, child: _Node, n: int) -> _Node:
    """Insert a node after the first `n` tokens of the edge to `child`."""
    middle = _Node(child.edge[:n], {child.edge[n]: child})
    parent.children[child.edge[0]] = middle
    child.edge = child.edge[n:]
    return middle


def _stored_below(node: _Node) -> Iterator[Tokens]:
    """Yield the way from the node's parent to the nearest stored sequences, in each branch."""
    waiting = [(node.edge, node)]
    while waiting:
        way, node = waiting.pop()
        if node.stored:
            yield way
        else:
            waiting += [(way + child.edge, child) for child in node.children.values()]

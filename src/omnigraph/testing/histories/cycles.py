"""Cycles of directed graphs whose nodes are numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

Following = Callable[[int], Iterable[int]]


def find_components(nodes: Iterable[int], following: Following) -> Iterator[frozenset[int]]:
    """Yield the strongly connected components of more than one node, by Tarjan's algorithm without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in nodes:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(following(root)))]
        while work:
            node, rest = work[-1]
            other = next(rest, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node) if stack[-1] != node else len(stack) - 1
                    component = frozenset(stack[cut:])
                    del stack[cut:]
                    on_stack -= component
                    if len(component) > 1:
                        yield component
            elif other not in index:
                index[other] = low[other] = len(index)
                stack.append(other)
                on_stack.add(other)
                work.append((other, iter(following(other))))
            elif other in on_stack:
                low[node] = min(low[node], index[other])


def find_path(start: int, goal: int, inside: Collection[int], following: Following) -> tuple[int, ...] | None:
    """Return a shortest path from one node to another one that stays inside some nodes; or None."""
    came_from: dict[int, int] = {start: start}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        if node == goal:
            path = [node]
            while path[-1] != start:
                path.append(came_from[path[-1]])
            return tuple(reversed(path))
        for other in following(node):
            if other in inside and other not in came_from:
                came_from[other] = node
                waiting.append(other)
    return None

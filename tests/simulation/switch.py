"""Switches single conditions of the product off while a run is played.

A switch names a function and an expression in it; while it is thrown, the function runs with
another expression in that place. It is the function's code that is exchanged, so that every module
that imported it has the other one. An expression that is not there exactly once is an error: a
switch that no longer fits the product is never mistaken for a rule that nobody watches.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from nodemanager.core.judge.preconditions import RuleCheck


@dataclass(frozen=True)
class Switch:
    """In `function` the expression `of` becomes `to`, which may use `names`.

    Where `counts`, both are evaluated, and each time they differ the switch has bitten.
    """

    function: Any
    of: str
    to: str = "False"
    names: Mapping[str, Any] = field(default_factory=dict)
    counts: bool = True

    @property
    def subject(self) -> FunctionType:
        found = self.function.fget if isinstance(self.function, property) else self.function
        found = found.ask if isinstance(found, RuleCheck) else found
        assert isinstance(found, FunctionType)
        return found

    def __str__(self) -> str:
        module = self.subject.__module__.removeprefix("nodemanager.")
        return f"{module}.{self.subject.__qualname__}: {self.of} -> {self.to}"


class NotThere(Exception):
    """The product has no such expression (any more), or several."""


@dataclass
class Bites:
    """How often a thrown switch changed what an expression came to."""

    count: int = 0

    def choose(self, was: object, now: object) -> object:
        if bool(was) != bool(now):
            self.count += 1
        return now


class _Exchange(ast.NodeTransformer):
    """Puts `to` in the place of each expression `of`, through `counter` where there is one."""

    def __init__(self, of: str, to: str, counter: str | None) -> None:
        self._of = ast.unparse(ast.parse(of, mode="eval").body)
        self._to = to
        self._counter = counter
        self.found = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.expr) or ast.unparse(node) != self._of:
            return self.generic_visit(node)
        self.found += 1
        now = ast.parse(self._to, mode="eval").body
        if self._counter is None:
            return now
        return ast.Call(ast.Name(self._counter, ast.Load()), [node, now], [])


def _mutated(subject: FunctionType, switches: Mapping[str, Switch]) -> CodeType:
    """The function's code with all these switches thrown, each by the name of its counter."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(subject)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    for counter, switch in switches.items():
        exchange = _Exchange(switch.of, switch.to, counter if switch.counts else None)
        definition.body = [exchange.visit(one) for one in definition.body]  # type: ignore[misc]
        if exchange.found != 1:
            where = f"{subject.__module__}.{subject.__qualname__}"
            raise NotThere(f"{where} has this {exchange.found} times: {switch.of}")
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, subject.__code__.co_firstlineno - 1)
    made: dict[str, Any] = {}
    exec(compile(tree, subject.__code__.co_filename, "exec"), {}, made)
    code = made[subject.__name__].__code__
    assert isinstance(code, CodeType)
    return code


@contextmanager
def thrown(switches: Sequence[Switch]) -> Iterator[tuple[Bites, ...]]:
    """The product with all these switches thrown. Raises NotThere."""
    bites = tuple(Bites() for _ in switches)
    by_subject: dict[FunctionType, dict[str, Switch]] = {}
    counters: dict[str, Bites] = {}
    for index, (switch, bite) in enumerate(zip(switches, bites, strict=True)):
        counter = f"_switched_{index}"
        counters[counter] = bite
        by_subject.setdefault(switch.subject, {})[counter] = switch
    mutated = {subject: _mutated(subject, group) for subject, group in by_subject.items()}
    with ExitStack() as stack:
        for subject, code in mutated.items():
            names: dict[str, Any] = {}
            for counter, switch in by_subject[subject].items():
                names |= {**switch.names, counter: counters[counter].choose}
            assert not names.keys() & subject.__globals__.keys(), "a name of its own is needed"
            subject.__globals__.update(names)
            for name in names:
                stack.callback(subject.__globals__.pop, name)
            stack.callback(setattr, subject, "__code__", subject.__code__)
            subject.__code__ = code
        yield bites

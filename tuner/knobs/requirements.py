"""Requirements, which a setting must meet to be launched, such as ``px * py * pz == ranks``. Pure.

An expression compares what is computed of knobs, ``ranks`` and constants. It is parsed by `ast` and
never evaluated by Python. It says nothing of a setting that lacks one of its knobs. If it cannot be
computed with a setting's values (by division by zero, or with a text such as ``unset``), that
setting does not meet it.
"""

from __future__ import annotations

import ast
import itertools
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from tuner.model import StudySpec, Value
from tuner.model.errors import UsageError, suggestion

#: The name of the number of MPI ranks, which is no knob.
RANKS = "ranks"

#: A longer expression is refused, characters.
MOST_CHARACTERS = 300

#: A power may not exceed this many bits.
_MOST_BITS = 64

#: More combinations of the knobs in requirements are not looked through.
MOST_COMBINATIONS = 300_000

#: More products of what goes together are not searched.
MOST_PARTS = 4096

_HINT = "a comparison of knobs and ranks, such as 'px * py * pz == ranks'"

_Operand = int | float | str | bool

#: Per world of a space: the values that each knob can have.
World = Mapping[str, tuple[Value, ...]]


def _power(base: Any, exponent: Any) -> Any:
    is_whole = isinstance(base, int) and isinstance(exponent, int)
    if is_whole and exponent * base.bit_length() > _MOST_BITS:
        raise ArithmeticError(f"{base}**{exponent} is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise ArithmeticError(f"{base}**{exponent} is no number")
    return result


_ARITHMETIC: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_EQUAL: Mapping[type[ast.AST], Callable[..., bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_ORDER: Mapping[type[ast.AST], Callable[..., bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _number(value: Any) -> Any:
    if isinstance(value, str):
        raise ArithmeticError(f"{value!r} is no number")
    return value


def as_operand(value: Value | float) -> _Operand:
    """Return a value as it is compared: a text of a number is that number."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        return number if abs(number) < float("inf") else value
    return value


def _compute(node: ast.expr, values: Mapping[str, _Operand]) -> Any:
    """Return the value of an expression, which `_parts` has checked."""
    match node:
        case ast.Constant():
            return as_operand(node.value)  # type: ignore[arg-type]
        case ast.Name():
            return values[node.id]
        case ast.BoolOp():
            every = all if isinstance(node.op, ast.And) else any
            return every(_compute(part, values) for part in node.values)
        case ast.UnaryOp():
            operand = _compute(node.operand, values)
            is_not = isinstance(node.op, ast.Not)
            return not operand if is_not else _ARITHMETIC[type(node.op)](_number(operand))
        case ast.BinOp():
            numbers = (_number(_compute(part, values)) for part in (node.left, node.right))
            return _ARITHMETIC[type(node.op)](*numbers)
        case ast.Compare():
            operands = [_compute(part, values) for part in (node.left, *node.comparators)]
            return all(
                _EQUAL[type(op)](*pair)
                if type(op) in _EQUAL
                else _ORDER[type(op)](*map(_number, pair))
                for op, pair in zip(node.ops, itertools.pairwise(operands), strict=True)
            )
    raise AssertionError(f"{node} was not checked")


def _parts(node: ast.expr, *, is_truth: bool) -> list[tuple[ast.expr, bool]] | None:
    """Return what an expression is made of, and which of it is true or false; ``None``: refuse it.

    At its top an expression is true or false, which comparisons joined by and, or, not are.
    """
    parts: list[tuple[ast.expr, bool]] | None = None
    match node:
        case ast.BoolOp() if is_truth:
            parts = [(part, True) for part in node.values]
        case ast.UnaryOp(op=ast.Not()) if is_truth:
            parts = [(node.operand, True)]
        case ast.Compare() if is_truth and {*map(type, node.ops)} <= {*_EQUAL, *_ORDER}:
            parts = [(part, False) for part in (node.left, *node.comparators)]
        case ast.BinOp() if not is_truth and type(node.op) in _ARITHMETIC:
            parts = [(node.left, False), (node.right, False)]
        case ast.UnaryOp() if not is_truth and type(node.op) in _ARITHMETIC:
            parts = [(node.operand, False)]
        case ast.Constant(value=int() | float() | str()) if not is_truth:
            parts = None if isinstance(node.value, bool) else []
        case ast.Name() if not is_truth:
            parts = []
    return parts


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[ast.expr, frozenset[str]]:
    """Return the expression that a text says, and the names in it.

    Raises:
        UsageError: It says none.
    """
    where = f"--require {text[:60]!r}"
    if len(text) > MOST_CHARACTERS:
        raise UsageError(
            f"{where}…: it has {len(text)} characters, more than {MOST_CHARACTERS}",
            "give several --require: all must hold",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as "is" with a literal
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = (error.msg if isinstance(error, SyntaxError) else str(error)) or "nested too deeply"
        raise UsageError(f"{where} cannot be read: {why}", f"{_HINT}; == is equal to") from error
    unchecked, names = [(tree, True)], set()
    while unchecked:
        node, is_truth = unchecked.pop()
        parts = _parts(node, is_truth=is_truth)
        if parts is None:
            raise UsageError(
                f"{where}: {ast.unparse(node)} cannot stand here"
                + (", as it is no comparison" if is_truth else ""),
                f"{_HINT}, with == != < <= > >= + - * / // % ** and, or, not",
            )
        unchecked += parts
        names |= {node.id} if isinstance(node, ast.Name) else set()
    return tree, frozenset(names)


@dataclass(frozen=True)
class Requirements:
    """What the settings of a study must meet: expressions, and the number of MPI ranks."""

    texts: tuple[str, ...] = ()
    ranks: int = 1

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the requirements: knobs, and perhaps ``ranks``."""
        return frozenset(name for text in self.texts for name in _parsed(text)[1])

    def broken(self, chosen: Mapping[str, Value]) -> tuple[str, str] | None:
        """Return the first expression that a setting breaks, and why if it cannot be computed."""
        if not self.texts:
            return None
        values = {RANKS: self.ranks, **{n: as_operand(v) for n, v in chosen.items()}}
        for text in self.texts:
            expression, names = _parsed(text)
            if names <= values.keys():
                try:
                    if not _compute(expression, values):
                        return text, ""
                except ArithmeticError as error:
                    return text, str(error)
        return None

    def meets(self, chosen: Mapping[str, Value]) -> bool:
        """Return whether the setting, or the part of one, may be launched."""
        return self.broken(chosen) is None

    def parts(self, world: World) -> Sequence[World]:
        """Return the products of values, without an overlap, that meet the requirements."""
        if self.names.isdisjoint(world):
            return [world] if self.meets({}) else []
        pinned = sorted(self.names & world.keys(), key=lambda name: len(world[name]))
        axes = tuple((name, world[name]) for name in pinned)
        return [{**world, **dict(part)} for part in _combinations(self, axes)]


#: Which values of each knob go together.
_Part = tuple[tuple[str, tuple[Value, ...]], ...]


@lru_cache(maxsize=256)
def _combinations(requirements: Requirements, axes: _Part) -> tuple[_Part, ...]:
    """Return the values that go together; the last knob's are listed for each choice of the others.

    Raises:
        UsageError: There are too many to look through.
    """
    return tuple(_walk(requirements, axes, {}, itertools.count()))


def _walk(
    requirements: Requirements, axes: _Part, chosen: dict[str, Value], tried: Iterator[int]
) -> Iterator[_Part]:
    """Yield the values that go together; a choice is left as soon as it breaks a requirement."""
    (name, values), *others = axes
    met = []
    for value in values:
        if next(tried) == MOST_COMBINATIONS:
            raise UsageError(
                f"--require names {', '.join(sorted(requirements.names))}, which have more than"
                f" {MOST_COMBINATIONS} combinations of values: so many are not looked through",
                "narrow their ranges",
            )
        if requirements.meets({**chosen, name: value}):
            met.append(value)
    if others:
        for value in met:
            yield from _walk(requirements, tuple(others), {**chosen, name: value}, tried)
    elif met:
        yield (*((other, (value,)) for other, value in chosen.items()), (name, tuple(met)))


NONE = Requirements()


def requirements_of(spec: StudySpec) -> Requirements:
    """Return what the settings of a study must meet."""
    return Requirements(spec.require, spec.layout.ranks)


def check(
    requirements: Requirements,
    domains: Mapping[str, Sequence[Value]],
    baseline: Mapping[str, Value],
    left_out: Mapping[str, str],
) -> None:
    """Refuse what is no requirement of this study, and what no setting or not the baseline meets.

    Args:
        requirements: What was asked for.
        domains: The values of each knob.
        baseline: What is known of the values of the baseline.
        left_out: Why a knob is not in the study.

    Raises:
        UsageError: It says which expression is wrong, and what to do.
    """
    world = {name: tuple(values) for name, values in domains.items()}
    for text in requirements.texts:
        names = _parsed(text)[1] - {RANKS}
        for name in sorted(names - domains.keys()):
            if name in left_out:
                raise UsageError(
                    f"--require {text!r}: {name} is not tuned here: {left_out[name]}",
                    f"tune it with --knob {name}, or leave it out of --require",
                )
            raise UsageError(
                f"--require {text!r}: there is no knob {name!r} in this study",
                suggestion(name, [*domains, RANKS]),
            )
        alone = Requirements((text,), requirements.ranks)
        if not alone.parts(world):
            _, why = alone.broken({name: world[name][0] for name in names}) or ("", "")
            listed = "; ".join(f"{name} is {_listed(world[name])}" for name in sorted(names))
            raise UsageError(
                f"no setting meets --require {text!r}: {listed or 'it names no knob'}"
                + (f" ({why})" if why else "")
                + f"; {RANKS} is {requirements.ranks}",
                "give its knobs other values (--knob NAME=VALUES), or require something else",
            )
        if alone.broken(baseline):
            given = sorted(names & baseline.keys())
            values = " ".join(f"{name}={baseline[name]}" for name in given)
            raise UsageError(
                f"the baseline ({values}) does not meet --require {text!r}",
                "give it the values that your job has today (--baseline NAME=VALUE), or require"
                " something else",
            )
    parts = requirements.parts(world)
    if not parts:
        listed = " and ".join(map(repr, requirements.texts))
        raise UsageError(f"no setting meets {listed} (--require)", "leave one of them out")
    if len(parts) > MOST_PARTS:
        raise UsageError(
            f"--require splits the settings into more than {MOST_PARTS} parts: so many are not"
            " searched",
            f"narrow the ranges of {', '.join(sorted(requirements.names & domains.keys()))}",
        )


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values[:6])) + (", …" if len(values) > 6 else "")

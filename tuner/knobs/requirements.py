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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

_Operand = int | float | str | bool
_Compute = Callable[[Mapping[str, _Operand]], Any]

#: Per world of a space: the values that each knob can have.
World = Mapping[str, tuple[Value, ...]]


class _UncomputableError(Exception):
    """An expression has no value for a setting."""


def _number(value: Any) -> Any:
    if isinstance(value, str):
        raise _UncomputableError(f"{value!r} is no number")
    return value


def _power(base: Any, exponent: Any) -> Any:
    is_whole = isinstance(base, int) and isinstance(exponent, int)
    if is_whole and exponent * base.bit_length() > _MOST_BITS:
        raise _UncomputableError(f"{base}**{exponent} is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise _UncomputableError(f"{base}**{exponent} is no number")
    return result


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_EQUAL: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class _Expression:
    """One requirement: the knobs that it names, and whether values of them meet it."""

    names: frozenset[str]
    compute: _Compute

    def failure(self, values: Mapping[str, _Operand]) -> str | None:
        """Return why these values do not meet it, empty if it is false; ``None``: they do."""
        try:
            return None if self.compute(values) else ""
        except (_UncomputableError, ArithmeticError) as error:
            return str(error)


class _Parser:
    """Makes functions of the parts of an expression; refuses, and marks, what is no part of one."""

    def __init__(self, text: str, knobs: Collection[str] | None) -> None:
        self.text, self.knobs = text, knobs
        self.names: set[str] = set()

    def error(self, node: ast.AST, why: str, hint: str = "") -> UsageError:
        raw = self.text.encode()  # `ast` counts bytes
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        before, part, after = (
            piece.decode(errors="replace") for piece in (raw[:start], raw[start:end], raw[end:])
        )
        hint = hint or "a comparison of knobs and ranks, such as 'px * py * pz == ranks'"
        return UsageError(f"--require: {why}: {before}>>>{part}<<<{after}", hint)

    def truth(self, node: ast.expr) -> _Compute:
        """Return a function that says whether a part of the expression holds."""
        if isinstance(node, ast.BoolOp):
            parts = [self.truth(value) for value in node.values]
            every = all if isinstance(node.op, ast.And) else any
            return lambda values: every(part(values) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            part = self.truth(node.operand)
            return lambda values: not part(values)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        raise self.error(node, "this is no comparison")

    def _comparison(self, node: ast.Compare) -> _Compute:
        operands = [self.value(operand) for operand in (node.left, *node.comparators)]
        steps = []
        for op, (left, right) in zip(node.ops, itertools.pairwise(operands), strict=True):
            if type(op) not in {*_EQUAL, *_ORDER}:
                raise self.error(
                    node, "this comparison is not known", "use == != < <= > >=, and/or"
                )
            steps.append((type(op), left, right))

        def holds(values: Mapping[str, _Operand]) -> bool:
            for op, left, right in steps:
                one, other = left(values), right(values)
                if op in _EQUAL:
                    is_true = _EQUAL[op](one, other)
                else:
                    is_true = _ORDER[op](_number(one), _number(other))
                if not is_true:
                    return False
            return True

        return holds

    def value(self, node: ast.expr) -> _Compute:
        """Return a function that gives the number or text of a part of the expression."""
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, int | float | str)
            and not isinstance(node.value, bool)
        ):
            constant = as_operand(node.value)
            return lambda _: constant
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            part, sign = self.value(node.operand), -1 if isinstance(node.op, ast.USub) else 1
            return lambda values: sign * _number(part(values))
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            compute, left, right = (
                _ARITHMETIC[type(node.op)],
                *map(self.value, (node.left, node.right)),
            )

            def result(values: Mapping[str, _Operand]) -> Any:
                return compute(_number(left(values)), _number(right(values)))

            if not any(isinstance(part, ast.Name) for part in ast.walk(node)):
                try:
                    result({})
                except (_UncomputableError, ArithmeticError) as error:
                    raise self.error(node, str(error)) from error
            return result
        why = "only arithmetic and comparisons of knobs and ranks can stand here"
        raise self.error(node, why)

    def _name(self, node: ast.Name) -> _Compute:
        name = node.id
        if self.knobs is not None and name not in {*self.knobs, RANKS}:
            raise self.error(
                node,
                f"there is no knob {name!r} in this study",
                suggestion(name, [*self.knobs, RANKS]),
            )
        self.names.add(name)
        return operator.itemgetter(name)


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


@lru_cache(maxsize=256)
def _parsed(text: str, knobs: frozenset[str] | None = None) -> _Expression:
    """Return the requirement that a text says.

    Raises:
        UsageError: It is none, or names what is none of ``knobs``.
    """
    text = text.strip()
    if len(text) > MOST_CHARACTERS:
        raise UsageError(
            f"--require {text[:60]!r}…: it has {len(text)} characters, more than {MOST_CHARACTERS}",
            "give several --require: all must hold",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as "is" with a literal
            tree = ast.parse(text, mode="eval")
        parser = _Parser(text, knobs)
        compute = parser.truth(tree.body)
    except SyntaxError as error:
        place = max(0, (error.offset or 1) - 1)
        raise UsageError(
            f"--require: it cannot be read from the mark on: {text[:place]}>>>{text[place:]}",
            "a comparison of knobs and ranks, such as 'px * py * pz == ranks'; == is equal to",
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(
            f"--require {text[:60]!r}: it cannot be read: {error or 'it is nested too deeply'}",
            "a comparison of knobs and ranks, such as 'px * py * pz == ranks'",
        ) from error
    return _Expression(frozenset(parser.names), compute)


@dataclass(frozen=True)
class Requirements:
    """What the settings of a study must meet.

    Attributes:
        texts: The expressions.
        ranks: The number of MPI ranks.
    """

    texts: tuple[str, ...] = ()
    ranks: int = 1

    @cached_property
    def _expressions(self) -> tuple[_Expression, ...]:
        return tuple(_parsed(text) for text in self.texts)

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the knobs that the requirements name."""
        return frozenset(name for expression in self._expressions for name in expression.names)

    def broken(self, chosen: Mapping[str, Value]) -> tuple[str, str] | None:
        """Return the first expression that a setting breaks, and why if it cannot be computed."""
        if not self.texts:
            return None
        values = {RANKS: self.ranks, **{n: as_operand(v) for n, v in chosen.items()}}
        for text, expression in zip(self.texts, self._expressions, strict=True):
            if expression.names <= values.keys():
                why = expression.failure(values)
                if why is not None:
                    return text, why
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
        UsageError: With the place in the expression, and what to do.
    """
    world = {name: tuple(values) for name, values in domains.items()}
    for text in requirements.texts:
        expression = _parsed(text, frozenset({*domains, *left_out}))
        for name in sorted(expression.names & left_out.keys() - domains.keys()):
            raise UsageError(
                f"--require {text!r}: {name} is not tuned here: {left_out[name]}",
                f"tune it with --knob {name}, or leave it out of --require",
            )
        alone = Requirements((text,), requirements.ranks)
        if not alone.parts(world):
            named = {name: world[name] for name in sorted(expression.names & domains.keys())}
            first = {name: values[0] for name, values in named.items()}
            _, why = alone.broken(first) or ("", "")
            listed = "; ".join(f"{name} is {_listed(values)}" for name, values in named.items())
            raise UsageError(
                f"no setting meets --require {text!r}: {listed or 'it names no knob'}"
                + (f" ({why})" if why else "")
                + f"; {RANKS} is {requirements.ranks}",
                "give its knobs other values (--knob NAME=VALUES), or require something else",
            )
        if alone.broken(baseline):
            names = sorted(expression.names & baseline.keys())
            values = " ".join(f"{name}={baseline[name]}" for name in names)
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

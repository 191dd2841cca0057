"""Requirements, which a setting must meet to be launched, such as ``px * py * pz == ranks``. Pure.

An expression compares what is computed of knobs, ``ranks`` and constants. A setting that lacks one
of its knobs meets it. If it cannot be computed with a setting's values (by division by zero, or
with a text such as ``unset``), that setting does not meet it.
"""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import CodeType

from tuner.model import RANKS, StudySpec, Value
from tuner.model.errors import UsageError, suggestion

#: Requirements whose knobs have more combinations of values are refused.
MOST_COMBINATIONS = 300_000

_HINT = "a comparison of knobs and ranks, such as 'px * py * pz == ranks'"

#: The values that each knob can have in one of the products that make up a space.
World = Mapping[str, tuple[Value, ...]]

#: The nodes of which an expression may consist.
_NODES = (
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.BinOp, ast.Add),
    *(ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Name, ast.Load, ast.Constant),
)


def _as_operand(value: Value | float) -> Value | float:
    """Return a value as it is compared: a text of a number is that number."""
    if isinstance(value, str):
        for kind in (int, float):
            try:
                number = kind(value)
            except ValueError:
                continue
            return number if abs(number) < float("inf") else value
    return value


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[CodeType, frozenset[str]]:
    """Return the expression of a text, ready to be evaluated, and the names in it."""
    where = f"--require {text[:60]!r}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as "is" with a literal
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = (error.msg if isinstance(error, SyntaxError) else str(error)) or "nested too deeply"
        raise UsageError(f"{where} cannot be read: {why}", f"{_HINT}; == is equal to") from error
    top, names = tree.body, set()
    is_not = isinstance(getattr(top, "op", None), ast.Not)
    is_condition = is_not or isinstance(top, ast.Compare | ast.BoolOp)
    for node in ast.walk(top):
        is_other = isinstance(node, ast.Constant) and type(node.value) not in (int, float, str)
        if is_other or not is_condition or not isinstance(node, _NODES):
            raise UsageError(
                f"{where}: {ast.unparse(node) or type(node).__name__} cannot stand here"
                + ("" if is_condition else ", as it is no comparison"),
                f"{_HINT}, with == != < <= > >= + - * / // % and, or, not",
            )
        if isinstance(node, ast.Constant):
            node.value = _as_operand(node.value)  # type: ignore[arg-type]
        elif isinstance(node, ast.Name):
            names.add(node.id)
    return compile(tree, "--require", "eval"), frozenset(names)


@dataclass(frozen=True)
class Requirements:
    """The expressions that the settings of a study must meet.

    ``ranks`` is the number of MPI ranks; if a setting has one, that is for each of the ``hosts``.
    """

    texts: tuple[str, ...] = ()
    ranks: int = 1
    hosts: int = 1

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the requirements: knobs, and perhaps ``ranks``."""
        return frozenset(name for text in self.texts for name in _parse(text)[1])

    def broken(self, chosen: Mapping[str, Value]) -> tuple[str, str] | None:
        """Return the first expression that a setting breaks, and why if it cannot be computed."""
        if not self.texts:
            return None
        values = {RANKS: self.ranks, **{n: _as_operand(v) for n, v in chosen.items()}}
        if isinstance(per_host := chosen.get(RANKS), int):
            values[RANKS] = per_host * self.hosts
        for text in self.texts:
            expression, names = _parse(text)
            if names <= values.keys():
                try:  # nothing but arithmetic and comparisons is in it
                    if not eval(expression, {"__builtins__": {}}, values):
                        return text, ""
                except (ArithmeticError, TypeError, ValueError) as error:
                    return text, str(error)
        return None

    def meets(self, chosen: Mapping[str, Value]) -> bool:
        """Return whether the setting, or the part of one, may be launched."""
        return self.broken(chosen) is None

    def parts(self, world: World) -> Sequence[World]:
        """Return the products of values, without an overlap, that meet the requirements."""
        if self.names.isdisjoint(world):
            return [world] if self.meets({}) else []
        # Ranks first: until a setting has a number of them, the baseline's stands for it.
        names = sorted(
            self.names & world.keys(), key=lambda name: (name != RANKS, len(world[name]), name)
        )
        axes = tuple((name, world[name]) for name in names)
        return [{**world, **dict(part)} for part in _combinations(self, axes)]


#: Values of knobs, each of which goes together with all values of the others.
_Part = tuple[tuple[str, tuple[Value, ...]], ...]


@lru_cache(maxsize=256)
def _combinations(requirements: Requirements, axes: _Part) -> tuple[_Part, ...]:
    """Return the values that go together: the last knob has several for a choice of the others."""
    return tuple(_walk(requirements, axes, {}, itertools.count()))


def _walk(
    requirements: Requirements, axes: _Part, chosen: dict[str, Value], tried: Iterator[int]
) -> Iterator[_Part]:
    """Yield the values that go together; a choice is left as soon as it breaks a requirement."""
    (name, values), *others = axes
    allowed = []
    for value in values:
        if next(tried) == MOST_COMBINATIONS:
            raise UsageError(
                f"--require names {', '.join(sorted(requirements.names))}, which have more than"
                f" {MOST_COMBINATIONS} combinations of values: so many are not looked through",
                "narrow their ranges",
            )
        if requirements.meets({**chosen, name: value}):
            allowed.append(value)
    if others:
        for value in allowed:
            yield from _walk(requirements, tuple(others), {**chosen, name: value}, tried)
    elif allowed:
        yield (*((other, (value,)) for other, value in chosen.items()), (name, tuple(allowed)))


NONE = Requirements()


def requirements_of(spec: StudySpec) -> Requirements:
    """Return what the settings of a study must meet."""
    return Requirements(spec.require, spec.layout.ranks, len(spec.layout.hosts))


def check(
    requirements: Requirements,
    domains: Mapping[str, Sequence[Value]],
    baseline: Mapping[str, Value],
    left_out: Mapping[str, str],
) -> None:
    """Refuse a requirement with other knobs, and one that no setting or not the baseline meets.

    ``domains`` are the values of each knob, ``baseline`` those of the baseline that are known, and
    ``left_out`` says why a knob is not in the study.
    """
    world = {name: tuple(values) for name, values in domains.items()}
    for text in requirements.texts:
        names = _parse(text)[1] - ({RANKS} - domains.keys())
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
        requirement = replace(requirements, texts=(text,))
        if not requirement.parts(world):
            _, why = requirement.broken({name: world[name][0] for name in names}) or ("", "")
            listed = "; ".join(f"{name} is {_listed(world[name])}" for name in sorted(names))
            raise UsageError(
                f"no setting meets --require {text!r}: {listed or 'it names no knob'}"
                + (f" ({why})" if why else "")
                + ("" if RANKS in names else f"; {RANKS} is {requirements.ranks}"),
                "give its knobs other values (--knob NAME=VALUES), or require something else",
            )
        if requirement.broken(baseline):
            baseline_names = sorted(names & baseline.keys())
            values = " ".join(f"{name}={baseline[name]}" for name in baseline_names)
            raise UsageError(
                f"the baseline ({values}) does not meet --require {text!r}",
                "give it the values that your job has today (--baseline NAME=VALUE), or require"
                " something else",
            )
    if not requirements.parts(world):
        listed = " and ".join(map(repr, requirements.texts))
        raise UsageError(f"no setting meets {listed} (--require)", "leave one of them out")


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values[:6])) + (", …" if len(values) > 6 else "")

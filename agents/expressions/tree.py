"""The tree that is evaluated: Python's nodes where they fit, and these for what is ours."""

from __future__ import annotations

import ast
from typing import Any, ClassVar, Final, NamedTuple

from agents.expressions.declarations import MISSING_VARIABLE, VALUE_NOT_ALLOWED, Check
from agents.expressions.functions import FUNCTIONS
from agents.expressions.names import dotted
from agents.expressions.values import KINDS

TRUE: Final = "TRUE"
FALSE: Final = "FALSE"
TYPE_MISMATCH: Final = "TYPE_MISMATCH"
ERROR: Final = "ERROR"


class Unknown(NamedTuple):
    """The outcome that is neither true nor false. The smallest of several is the one named."""

    rank: int
    position: int
    detail: str


# An index into REASONS, behind those of False and True; in the order in which they take precedence.
MISSING_RANK: Final = 2
NOT_ALLOWED_RANK: Final = 3
MISMATCH_RANK: Final = 4
# Sets of outcomes, as bits.
FALSE_BIT: Final = 1
TRUE_BIT: Final = 2
UNKNOWN_BIT: Final = 4

REASONS: Final = (FALSE, TRUE, MISSING_VARIABLE, VALUE_NOT_ALLOWED, TYPE_MISMATCH)


class Part(NamedTuple):
    """A sub-expression as it is written, and what it came to; ``value`` None is unknown."""

    expression: str
    value: bool | None
    reason: str


class Name:
    """One name that an expression reads, wherever it stands in it."""

    __slots__ = ("declared", "keys", "label", "missing", "steps")

    def __init__(self, keys: tuple[str, ...], checks: tuple[Check | None, ...]) -> None:
        self.keys = keys
        self.label = dotted(keys)
        self.missing = f"`{self.label}` is missing from the context"
        # Each key with the declaration, if any, of the name up to it.
        self.steps = tuple(zip(keys, checks, strict=True))
        self.declared = checks[-1]


class Subject(NamedTuple):
    """What a mismatch names: the leftmost name below a node, else the text of the node."""

    label: str
    position: int
    is_name: bool


class Literal(ast.expr):
    """A value that stands in the expression; lists are tuples."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Read(ast.expr):
    """The value of a name at one place of the expression."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, index: int, name: Name, position: int) -> None:
        super().__init__()
        self.index = index
        self.name = name
        self.position = position


class Has(ast.expr):
    """Whether a name is there."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, index: int, name: Name, position: int) -> None:
        super().__init__()
        self.index = index
        self.name = name
        self.position = position


class Comparison(ast.Compare):
    """A comparison with the subject of each of its pairs."""

    def __init__(
        self,
        operands: list[ast.expr],
        ops: list[ast.cmpop],
        subjects: tuple[Subject, ...],
    ) -> None:
        super().__init__(left=operands[0], ops=ops, comparators=operands[1:])
        pairs = zip(ops, operands[1:], subjects, strict=True)
        self.pairs = tuple((type(op), operand, subject) for op, operand, subject in pairs)


class Application(ast.expr):
    """A call of one of the functions with the subject of each argument."""

    _fields: ClassVar[tuple[str, ...]] = ("args",)

    def __init__(self, function: str, args: list[ast.expr], subjects: tuple[Subject, ...]) -> None:
        super().__init__()
        self.function = function
        self.args = args
        self.subjects = subjects


class Atom(ast.expr):
    """A sub-expression that is true, false or unknown as a whole, and is shown as a part."""

    _fields: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, inner: ast.expr, text: str, subject: Subject) -> None:
        super().__init__()
        self.inner = inner
        self.subject = subject
        values: tuple[Any, ...] = (False, True, None, None, None)
        self.parts = tuple(Part(text, *pair) for pair in zip(values, REASONS, strict=True))


def first_name(node: ast.AST) -> Read | Has | None:
    """Return the leftmost name that a node reads."""
    if isinstance(node, Read | Has):
        return node
    if isinstance(node, Literal):
        return None
    found = [below for below in ast.walk(node) if isinstance(below, Read | Has)]
    return min(found, key=lambda name: name.position, default=None)


def static_kind(node: ast.expr) -> str | None:
    """Return the kind that a node's value always has (null and unknown aside), if that is known."""
    if isinstance(node, Literal):
        return KINDS[type(node.value)]
    if isinstance(node, Read):
        return None if node.name.declared is None else node.name.declared.type
    if isinstance(node, Application):
        return FUNCTIONS[node.function].gives
    return "boolean"

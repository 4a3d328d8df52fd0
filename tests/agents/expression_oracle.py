"""The three-valued semantics once more, written from the rules alone.

An expression is a plain tree of tuples here, so that nothing of the code under test is needed to
know what it should come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Tree: TypeAlias = tuple[Any, ...]

ORDER = ["MISSING_VARIABLE", "VALUE_NOT_ALLOWED", "TYPE_MISMATCH"]


@dataclass
class Cause:
    """Why something is unknown: the reason and the name, in the order of the text."""

    reason: str
    name: str
    place: int


@dataclass
class Declared:
    type: str
    values: list[Any] | None = None


class Oracle:
    def __init__(self, context: dict[str, Any], declared: dict[str, Declared]) -> None:
        self.context = context
        self.declared = declared
        self.place = 0
        self.log: list[tuple[str, int]] = []
        self.read: set[str] = set()
        self.parts: list[bool | None] = []

    def decide(self, tree: Tree) -> tuple[bool, str, str | None]:
        outcome = self.truth(tree)
        if isinstance(outcome, bool):
            return outcome, "TRUE" if outcome else "FALSE", None
        for reason in ORDER:
            causes = [cause for cause in outcome if cause.reason == reason]
            if causes:
                return False, reason, min(causes, key=lambda cause: cause.place).name
        raise AssertionError("an unknown without a cause")

    def truth(self, tree: Tree) -> bool | list[Cause]:
        kind = tree[0]
        if kind == "not":
            inner = self.truth(tree[1])
            return inner if isinstance(inner, list) else not inner
        if kind in ("and", "or"):
            outcomes = [self.truth(part) for part in tree[1]]
            decisive = bool(kind == "or")
            if any(outcome is decisive for outcome in outcomes):
                return decisive
            causes = [cause for o in outcomes if isinstance(o, list) for cause in o]
            return causes or not decisive
        value, subject = self.value(tree)
        outcome: bool | list[Cause]
        if isinstance(value, Unknown):
            outcome = value.causes
        elif isinstance(value, bool):
            outcome = value
        else:
            outcome = [Cause("TYPE_MISMATCH", *subject)]
        self.parts.append(outcome if isinstance(outcome, bool) else None)
        return outcome

    def operand(self, tree: Tree) -> tuple[Any, tuple[str, int]]:
        if tree[0] not in ("and", "or", "not", "compare"):
            return self.value(tree)
        start, place = len(self.log), self.place
        outcome = self.truth(tree)
        value = Unknown(outcome) if isinstance(outcome, list) else outcome
        return value, self.leftmost(start, place)

    def value(self, tree: Tree) -> tuple[Any, tuple[str, int]]:
        """Return a value or Unknown, and the leftmost name below (else "")."""
        self.place += 1
        start, place = len(self.log), self.place
        kind = tree[0]
        value: Any
        if kind == "literal":
            value = tree[1]
        elif kind == "name":
            value = self.named(tree[1])
        elif kind == "has":
            found = self.named(tree[1])
            causes = found.causes if isinstance(found, Unknown) else []
            value = not any(cause.reason == "MISSING_VARIABLE" for cause in causes)
        elif kind == "call":
            value = self.called(tree)
        else:
            value = self.compared(tree)
        return value, self.leftmost(start, place)

    def leftmost(self, start: int, place: int) -> tuple[str, int]:
        return self.log[start] if len(self.log) > start else ("", place)

    def named(self, keys: list[str]) -> Any:
        label, place = ".".join(keys), self.place
        self.log.append((label, place))
        value: Any = self.context
        for depth, key in enumerate(keys, start=1):
            if not isinstance(value, dict) or key not in value:
                return Unknown([Cause("MISSING_VARIABLE", label, place)])
            value = value[key]
            prefix = ".".join(keys[:depth])
            declared = self.declared.get(prefix)
            if declared and not allowed(declared, value):
                self.read.add(prefix)
                return Unknown([Cause("VALUE_NOT_ALLOWED", prefix, place)])
        self.read.add(label)
        return value

    def called(self, tree: Tree) -> Any:
        name, args = tree[1], [self.operand(arg) for arg in tree[2]]
        causes = []
        takes = {"len": ["string", "list", "object"], "contains": ["string", "list"]}
        for number, (value, subject) in enumerate(args):
            kinds = takes.get(name, ["string"])
            if name == "contains" and number == 1:
                kinds = ["null", "boolean", "number", "string", "list", "object"]
            if isinstance(value, Unknown):
                causes += value.causes
            elif tag(value) not in kinds:
                causes.append(Cause("TYPE_MISMATCH", *subject))
        if causes:
            return Unknown(causes)
        result = apply(name, [value for value, _ in args])
        return Unknown([Cause("TYPE_MISMATCH", *args[0][1])]) if result is None else result

    def compared(self, tree: Tree) -> Any:
        operands = [self.operand(tree[1]), *(self.operand(right) for _, right in tree[2])]
        outcomes: list[bool | list[Cause]] = []
        for number, (op, _) in enumerate(tree[2]):
            (left, a), (right, b) = operands[number], operands[number + 1]
            causes = [c for v in (left, right) if isinstance(v, Unknown) for c in v.causes]
            outcome = None if causes else compare(op, left, right)
            if outcome is None:
                outcomes.append(causes or [Cause("TYPE_MISMATCH", *(a if a[0] else b))])
            else:
                outcomes.append(outcome)
        if any(outcome is False for outcome in outcomes):
            return False
        causes = [cause for o in outcomes if isinstance(o, list) for cause in o]
        return Unknown(causes) if causes else True


@dataclass
class Unknown:
    causes: list[Cause]


@dataclass
class Semantic:
    numbers: list[int]
    pre: list[str]


@dataclass
class Day:
    text: str


def tag(value: Any) -> str:
    for kind, name in (
        (bool, "boolean"),
        ((int, float), "number"),
        (str, "string"),
        ((list, tuple), "list"),
        (dict, "object"),
        (Semantic, "version"),
        (Day, "date"),
    ):
        if isinstance(value, kind):
            return name
    assert value is None
    return "null"


def allowed(declared: Declared, value: Any) -> bool:
    values = declared.values
    if value is None:
        return values is None or None in values
    if tag(value) != declared.type:
        return False
    if values is None:
        return True
    elements = value if declared.type == "list" else [value]
    return all(any(same(element, other) is True for other in values) for element in elements)


def same(left: Any, right: Any) -> bool | None:
    kinds = {tag(left), tag(right)}
    if len(kinds) == 2:
        return False if "null" in kinds else None
    if kinds == {"list"}:
        if len(left) != len(right):
            return False
        return conjunction([same(a, b) for a, b in zip(left, right, strict=True)])
    if kinds == {"object"}:
        if sorted(left) != sorted(right):
            return False
        return conjunction([same(left[key], right[key]) for key in left])
    return bool(left == right)


def conjunction(outcomes: list[bool | None]) -> bool | None:
    if False in outcomes:
        return False
    return None if None in outcomes else True


def before(left: Any, right: Any) -> bool | None:
    kind = tag(left)
    if kind != tag(right) or kind not in ("number", "string", "version", "date"):
        return None
    if kind == "version":
        return semantic_before(left, right)
    if kind == "date":
        return bool(left.text < right.text)
    return bool(left < right)


def semantic_before(left: Semantic, right: Semantic) -> bool:
    if left.numbers != right.numbers:
        return left.numbers < right.numbers
    if not left.pre or not right.pre:
        return bool(left.pre) and not right.pre
    for a, b in zip(left.pre, right.pre, strict=False):
        if a != b:
            if a.isdigit() and b.isdigit():
                return int(a) < int(b)
            return a < b if a.isdigit() == b.isdigit() else a.isdigit()
    return len(left.pre) < len(right.pre)


def compare(op: str, left: Any, right: Any) -> bool | None:
    if op in ("==", "!="):
        outcome = same(left, right)
    elif op in ("in", "not in"):
        outcome = inside(left, right)
    elif op in ("<", ">="):
        outcome = before(left, right)
    else:
        outcome = before(right, left)
    if outcome is None:
        return None
    return outcome if op in ("==", "in", "<", ">") else not outcome


def inside(item: Any, container: Any) -> bool | None:
    if tag(container) == "string":
        return item in container if tag(item) == "string" else None
    if tag(container) != "list":
        return None
    outcomes = [same(element, item) for element in container]
    if True in outcomes:
        return True
    return None if None in outcomes else False


def apply(name: str, args: list[Any]) -> Any:
    if name == "len":
        return len(args[0])
    if name == "contains":
        return inside(args[1], args[0])
    if name in ("lower", "upper", "startswith", "endswith"):
        return getattr(args[0], name)(*args[1:])
    if name == "version":
        return semantic(args[0])
    parts = args[0][:10].split("-")
    is_day = [len(part) for part in parts] == [4, 2, 2] and all(map(str.isdecimal, parts))
    return Day(args[0]) if is_day and len(args[0]) == 10 else None


def semantic(text: str) -> Semantic | None:
    core, dash, pre = text.removeprefix("v").partition("-")
    numbers = core.split(".")
    if not 1 <= len(numbers) <= 3 or not all(n.isdecimal() for n in numbers) or (dash and not pre):
        return None
    padded = [*map(int, numbers), 0, 0][:3]
    return Semantic(padded, pre.split(".") if pre else [])

"""From the text to the tree: Python's grammar, of which only what is listed here is let through."""

from __future__ import annotations

import ast
import difflib
import itertools
import math
import unicodedata
from typing import Any, Final

from agents.expressions.declarations import Check, Declarations
from agents.expressions.errors import ExpressionError
from agents.expressions.functions import FUNCTIONS, HAS, SIGNATURES
from agents.expressions.lexing import name_problem, tokenised
from agents.expressions.limits import (
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_NODES,
    MAX_PART_LENGTH,
    MAX_STEPS,
)
from agents.expressions.tree import (
    Application,
    Atom,
    Comparison,
    Has,
    Literal,
    Name,
    Read,
    Subject,
    first_name,
    static_kind,
)
from agents.expressions.values import KINDS, Work

_OPERATORS: Final = (
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.In,
    ast.NotIn,
)


def parse(text: str, declarations: Declarations) -> tuple[ast.expr, tuple[Name, ...]]:
    """Return the tree of an expression and the names it reads; raise ``ExpressionError``."""
    line = tokenised(text)
    source = line.lstrip()
    try:
        body = ast.parse(source, "<expression>", "eval").body
    except SyntaxError as error:
        # Python gives 0 for what is missing at the end.
        offset = error.offset or len(source.rstrip()) + 1
        place = f"At character {len(line) - len(source) + offset}"
        raise ExpressionError("expression.syntax", f"{place}: {error.msg}.", text) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(
            "expression.too_complex", "The expression cannot be read: it is too complex.", text
        ) from error
    # Before anything is built: what is refused should cost little.
    if sum(isinstance(node, ast.expr) for node in ast.walk(body)) > MAX_NODES:
        raise ExpressionError(
            "expression.too_complex",
            f"The expression has more than {MAX_NODES} parts.",
            text,
            MAX_NODES,
        )
    builder = _Builder(text, source, declarations)
    tree = builder.boolean(body, 1)
    return tree, tuple(name for _, name in builder.names.values())


class _Builder:
    """Builds the tree; refuses every node that the language does not have."""

    def __init__(self, text: str, source: str, declarations: Declarations) -> None:
        self.text = text
        self.source = source.encode()
        self.declarations = declarations
        self.names: dict[tuple[str, ...], tuple[int, Name]] = {}

    def refusal(self, code: str, message: str, allowed: Any = None) -> ExpressionError:
        return ExpressionError(f"expression.{code}", message, self.text, allowed)

    def not_allowed(self, node: ast.AST, problem: str, allowed: Any = None) -> ExpressionError:
        return self.refusal("not_allowed", f"`{self.written(node)}`: {problem}.", allowed)

    def written(self, node: ast.AST) -> str:
        """Return the node's text, shortened."""
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        written = self.source[start:end].decode()
        return written if len(written) <= MAX_PART_LENGTH else written[: MAX_PART_LENGTH - 1] + "…"

    def enter(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.refusal(
                "too_complex", f"The expression is nested over {MAX_DEPTH} levels.", MAX_DEPTH
            )

    def boolean(self, node: ast.expr, depth: int) -> ast.expr:
        """Build a node that must be boolean in form."""
        if isinstance(node, ast.BoolOp):
            self.enter(depth)
            return ast.BoolOp(node.op, [self.boolean(value, depth + 1) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.enter(depth)
            return ast.UnaryOp(node.op, self.boolean(node.operand, depth + 1))
        if isinstance(node, ast.Tuple):
            raise self.not_boolean(node, "join conditions with and / or")
        inner = (
            self.comparison(node, depth)
            if isinstance(node, ast.Compare)
            else self.operand(node, depth)
        )
        if not isinstance(inner, Comparison) and static_kind(inner) != "boolean":
            hint = "compare it with something"
            if isinstance(inner, Read):
                hint = f"compare it (`{inner.name.label} == True`)"
                hint += " or declare it as boolean" if inner.name.declared is None else ""
            raise self.not_boolean(node, hint)
        return Atom(inner, self.written(node), self.subject(inner, node))

    def not_boolean(self, node: ast.expr, hint: str) -> ExpressionError:
        return self.refusal(
            "not_boolean", f"`{self.written(node)}` is neither true nor false by itself; {hint}."
        )

    def comparison(self, node: ast.Compare, depth: int) -> Comparison:
        self.enter(depth)
        for op in node.ops:
            if not isinstance(op, _OPERATORS):
                raise self.not_allowed(node, "this comparison is not available")
        nodes = [node.left, *node.comparators]
        operands = [self.operand(operand, depth + 1) for operand in nodes]
        subjects = [self.subject(*pair) for pair in zip(operands, nodes, strict=True)]
        pairs = itertools.pairwise(subjects)
        named = tuple(b if b.is_name and not a.is_name else a for a, b in pairs)
        return Comparison(operands, node.ops, named)

    def operand(self, node: ast.expr, depth: int) -> ast.expr:
        """Build a node that may have any value."""
        if isinstance(node, ast.BoolOp | ast.Compare) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            return self.boolean(node, depth)
        self.enter(depth)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            index, name = self.name(self.keys(node, depth), node)
            return Read(index, name, node.col_offset)
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        return Literal(self.literal(node, depth))

    def literal(self, node: ast.expr, depth: int) -> Any:
        if isinstance(node, ast.Constant):
            return self.constant(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            value = self.constant(node.operand)
            if isinstance(node.op, ast.USub | ast.UAdd) and KINDS[type(value)] == "number":
                return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.List | ast.Tuple):
            self.enter(depth)
            return tuple(self.literal(element, depth + 1) for element in node.elts)
        if isinstance(node, ast.UnaryOp | ast.BinOp):
            raise self.not_allowed(node, "there is no arithmetic, only a sign before a number")
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            raise self.not_allowed(node, "a list holds texts, numbers, True, False and None only")
        raise self.not_allowed(node, "this is not available in expressions")

    def constant(self, node: ast.Constant) -> Any:
        value = node.value
        if type(value) not in KINDS:
            raise self.not_allowed(node, "this is not available in expressions")
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" or c == "\0" for c in value):
            raise self.not_allowed(node, "this is not a character that JSON can carry")
        if isinstance(value, int) and value > MAX_INTEGER:
            raise self.not_allowed(node, f"whole numbers go up to {MAX_INTEGER}", MAX_INTEGER)
        if isinstance(value, float) and math.isinf(value):
            raise self.not_allowed(node, "this number is too large")
        return value

    def keys(self, node: ast.expr, depth: int) -> tuple[str, ...]:
        if isinstance(node, ast.Name):
            return (node.id,)
        if isinstance(node, ast.Attribute):
            return (*self.keys(node.value, depth), node.attr)
        if isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if not isinstance(key, str) or not key:
                raise self.not_allowed(
                    node, 'brackets after a name hold one key, as in customer["tier"]'
                )
            return (*self.keys(node.value, depth), key)
        raise self.not_allowed(node, "only names have keys")

    def name(self, raw: tuple[str, ...], node: ast.AST) -> tuple[int, Name]:
        """Return a name and its index, the same for each place where it stands."""
        keys = tuple(unicodedata.normalize("NFC", key) for key in raw)
        if any(key.startswith("__") for key in keys):
            raise self.not_allowed(node, "a key cannot begin with __")
        if keys not in self.names:
            problem = self.declarations.unknown(keys) if self.declarations else None
            if problem:
                raise self.refusal("unknown_name", problem, self.declarations.names)
            prefixes = (self.declarations.by_keys.get(keys[:n]) for n in range(1, len(keys) + 1))
            checks = tuple(None if v is None else Check(v) for v in prefixes)
            self.names[keys] = (len(self.names), Name(keys, checks))
        return self.names[keys]

    def call(self, node: ast.Call, depth: int) -> ast.expr:
        if not isinstance(node.func, ast.Name):
            raise self.not_allowed(node, "methods are not available; write lower(name)", SIGNATURES)
        called = node.func.id
        if called == HAS:
            return self.has(node)
        function = FUNCTIONS.get(called)
        if function is None:
            close = difflib.get_close_matches(called[:100], [*FUNCTIONS, HAS], n=1)
            hint = f"; did you mean `{close[0]}`?" if close else "."
            raise self.refusal(
                "unknown_function",
                f"There is no function `{called[:100]}`{hint}",
                list(SIGNATURES),
            )
        if node.keywords or len(node.args) != len(function.takes):
            raise self.refusal(
                "wrong_arguments", f"`{self.written(node)}`: write {function.signature}."
            )
        args = [self.operand(arg, depth + 1) for arg in node.args]
        for arg, written, kinds in zip(args, node.args, function.takes, strict=True):
            kind = None if isinstance(arg, Read) else static_kind(arg)
            if kind is not None and kind not in kinds:
                raise self.refusal(
                    "wrong_arguments",
                    f"`{self.written(written)}` is of type {kind}; "
                    f"`{called}` takes {' or '.join(sorted(kinds))}.",
                    sorted(kinds),
                )
        constants = [arg.value for arg in args if isinstance(arg, Literal)]
        if len(constants) == len(args) and function.gives != "boolean":
            value = function.call(Work(), *constants)
            if value is None:
                raise self.refusal("wrong_arguments", f"`{self.written(node)}` is not a {called}.")
            return Literal(value)
        subjects = tuple(self.subject(*pair) for pair in zip(args, node.args, strict=True))
        return Application(called, args, subjects)

    def has(self, node: ast.Call) -> Has:
        argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
        path = argument.value if isinstance(argument, ast.Constant) else None
        keys = tuple(path.split(".")) if isinstance(path, str) else ()
        if not keys or not all(keys) or len(keys) > MAX_STEPS or name_problem(keys[0]):
            raise self.refusal(
                "wrong_arguments", f'`{self.written(node)}`: write has("a.b"), a name in quotes.'
            )
        return Has(*self.name(keys, node), node.col_offset)

    def subject(self, node: ast.expr, written: ast.expr) -> Subject:
        first = first_name(node)
        if first is None:
            return Subject(self.written(written), written.col_offset, is_name=False)
        return Subject(first.name.label, first.position, is_name=True)

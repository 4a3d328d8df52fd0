"""Random expressions (as the oracle's trees and as texts), contexts and declarations."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.agents.expression_oracle import Declared, Tree

MIRROR = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
TEXTS = ["EU", "UK", "eu", "", "1", "gold", "E", "1.2.0", "v1.10", "2.0.0-rc.1", "2026-01-31"]
NUMBERS: list[Any] = [0, 1, -1, 1.0, 2.5, 18]
SCALARS: list[Any] = [*TEXTS, *NUMBERS, True, False, None]
NAMES = [["region"], ["age"], ["vip"], ["tags"], ["customer"], ["customer", "tier"], ["app"]]
VALUES: list[Any] = [
    *SCALARS,
    [],
    ["EU", "UK"],
    [1, "1"],
    [True, None],
    [["EU"], {"tier": 1}],
    {},
    {"tier": "gold"},
    {"tier": None},
    {"tier": 1.0, "items": [1]},
]


class Maker:
    """Makes random trees that the language can express."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def pick(self, trees: list[Tree]) -> Tree:
        return self.random.choice(trees)

    def context(self) -> dict[str, Any]:
        names = ["region", "age", "vip", "tags", "customer", "app"]
        likely = {
            "region": TEXTS,
            "age": NUMBERS,
            "vip": [True, False],
            "tags": [["EU"], [], ["gold", "UK"]],
            "customer": [{"tier": "gold"}, {"tier": "EU"}, {"plan": 1}],
            "app": ["1.2.0", "1.10", "2.0.0-rc.1", "2026-01-31"],
        }
        return {
            name: self.random.choice(likely[name] if self.random.random() < 0.7 else VALUES)
            for name in names
            if self.random.random() < 0.8
        }

    def declarations(self) -> dict[str, Declared]:
        pick = self.random.choice
        return {
            "region": Declared("string", pick([None, ["EU", "UK"], ["EU", None, "1"]])),
            "age": Declared("number", pick([None, [1, 18], [1.0, 0]])),
            "vip": Declared("boolean", pick([None, [True], [True, False]])),
            "tags": Declared("list", pick([None, ["EU", "UK"], ["EU", 1, True]])),
            "customer": Declared("object"),
            **({"customer.tier": Declared("string", ["gold", "EU"])} if pick([0, 1]) else {}),
            "app": Declared("string"),
        }

    def tree(self, declared: dict[str, Declared], depth: int = 3) -> Tree:
        roll = self.random.random()
        if depth and roll < 0.3:
            count = self.random.randint(2, 3)
            kind = self.random.choice(["and", "or"])
            return (kind, [self.tree(declared, depth - 1) for _ in range(count)])
        if depth and roll < 0.42:
            return ("not", self.tree(declared, depth - 1))
        if roll < 0.5:
            return ("has", self.random.choice(NAMES))
        if roll < 0.58:
            return self.boolean_call(declared)
        if roll < 0.6:
            return ("literal", self.random.choice([True, False]))
        flags = [
            keys for keys in NAMES if declared.get(".".join(keys), Declared("")).type == "boolean"
        ]
        if flags and roll < 0.65:
            return ("name", self.random.choice(flags))
        return self.comparison(declared, depth)

    def comparison(self, declared: dict[str, Declared], depth: int) -> Tree:
        pairs = []
        for _ in range(1 if self.random.random() < 0.8 else 2):
            op = self.random.choice(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
            if "in" in op and self.random.random() < 0.7:
                count = self.random.randint(0, 3)
                items = [self.random.choice(SCALARS) for _ in range(count)]
                pairs.append((op, ("literal", items)))
            else:
                pairs.append((op, self.operand(declared, depth)))
        return ("compare", self.operand(declared, depth), pairs)

    def operand(self, declared: dict[str, Declared], depth: int) -> Tree:
        roll = self.random.random()
        if roll < 0.45:
            return ("name", self.random.choice(NAMES))
        if roll < 0.55:
            name = self.random.choice(["lower", "upper", "len", "version", "date"])
            return ("call", name, [self.text(name)])
        if depth and roll < 0.6:
            return self.tree(declared, depth - 1)
        return ("literal", self.random.choice(SCALARS))

    def text(self, function: str) -> Tree:
        name = ("name", self.random.choice(NAMES))
        if function in ("version", "date"):
            good = {"version": ["1.2.0", "v2", "2.0.0-rc.1"], "date": ["2026-01-31"]}[function]
            return self.pick([name, ("literal", self.random.choice(good))])
        nested = ("call", "lower", [name])
        return self.pick([name, name, nested, ("literal", self.random.choice(TEXTS))])

    def boolean_call(self, declared: dict[str, Declared]) -> Tree:
        name = self.random.choice(["startswith", "endswith", "contains"])
        second = self.text("") if name != "contains" else ("literal", self.random.choice(SCALARS))
        return ("call", name, [self.text(""), second])

    def swapped(self, tree: Tree) -> Tree:
        """Return the same rule with operands the other way round."""
        if tree[0] == "not":
            return ("not", self.swapped(tree[1]))
        if tree[0] in ("and", "or"):
            return (tree[0], [self.swapped(part) for part in reversed(tree[1])])
        if tree[0] == "compare" and all(op in MIRROR for op, _ in tree[2]):
            operands = [tree[1], *(right for _, right in tree[2])]
            operands = [self.swapped(operand) for operand in reversed(operands)]
            ops = [MIRROR[op] for op, _ in reversed(tree[2])]
            return ("compare", operands[0], list(zip(ops, operands[1:], strict=True)))
        return tree

    def written(self, tree: Tree) -> str:
        kind = tree[0]
        if kind == "literal":
            return self.literal(tree[1])
        if kind == "name":
            first, *rest = tree[1]
            steps = [self.random.choice([f".{key}", f'["{key}"]', f"['{key}']"]) for key in rest]
            return "".join([first, *steps])
        if kind == "has":
            return f'has("{".".join(tree[1])}")'
        if kind == "call":
            return f"{tree[1]}({', '.join(self.written(arg) for arg in tree[2])})"
        if kind == "not":
            return f"not {self.grouped(tree[1], ('and', 'or'))}"
        if kind in ("and", "or"):
            inner = ("or",) if kind == "and" else ()
            return f" {kind} ".join(self.grouped(part, (kind, *inner)) for part in tree[1])
        parts = [self.grouped(tree[1], ("and", "or", "not", "compare"))]
        for op, right in tree[2]:
            parts += [op, self.grouped(right, ("and", "or", "not", "compare"))]
        return " ".join(parts)

    def grouped(self, tree: Tree, kinds: tuple[str, ...]) -> str:
        text = self.written(tree)
        return f"({text})" if tree[0] in kinds or self.random.random() < 0.1 else text

    def literal(self, value: Any) -> str:
        if isinstance(value, list):
            items = [self.literal(item) for item in value]
            if self.random.random() < 0.5:
                return f"[{', '.join(items)}]"
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, str):
            quote = self.random.choice("'\"")
            return f"{quote}{value}{quote}"
        return repr(value)

"""What a tensor formula can see, and where its mistakes stand."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ..schema import expr
from ..schema.errors import nearest
from ..schema.model import Formula, Location, Operator, Schema, Type
from .values import Value, convert, described, fits


class TranslationError(Exception):
    """A formula that does not translate; carries its place in the schema."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(f"{location}: {message}")
        self.location = location
        self.message = message


@dataclass
class Scope:
    """Where one formula is translated.

    Variables are names, or whole texts such as `x.shape` of what the forward has kept; `calls` are
    those of them that are calls.
    """

    schema: Schema
    op: Operator
    formula: Formula
    variables: dict[str, Value]
    in_shape: bool = False  # shape rules and operators have names of their own
    offered: tuple[str, ...] = ()  # names that a formula of this kind may use beside the variables

    def __post_init__(self) -> None:
        self.calls = {text: v for text, v in self.variables.items() if text.endswith(")")}

    def error(self, node: ast.AST, message: str) -> TranslationError:
        return TranslationError(expr.place(self.formula, node), message)

    def convert(
        self,
        value: Value,
        wanted: Type,
        node: ast.AST,
        *,
        numbers: bool = False,
        owned: bool = False,
    ) -> Value:
        """`value` as the wanted type, or an error at the node it comes from."""
        if not fits(value, wanted, numbers):
            text = ast.unparse(node)
            raise self.error(
                node, f"{described(wanted)} is wanted here, `{text}` is {described(value.type)}"
            )
        return convert(value, wanted, owned)

    def unknown_name(self, name: str, node: ast.AST) -> TranslationError:
        names = [n for n in self.variables if n.isidentifier()]
        known = [*names, *(a.name for a in self.op.signature.arguments), *self.offered]
        hint = nearest(name, known) or nearest(name, expr.CONSTANTS)
        if not hint and known:
            hint = f"; known are {', '.join(dict.fromkeys(known))}"
        return self.error(node, f"unknown name '{name}'{hint}")

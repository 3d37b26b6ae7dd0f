"""Formulas over arrays: for a device in Python, with NumPy or an array library like it."""

from __future__ import annotations

import ast
from functools import cache, lru_cache
from typing import Any, ClassVar

from facula.backends.translate import Formula, Reduction, constants, formulas, reductions


@lru_cache(maxsize=1)
def _formulas() -> dict[tuple[str, str], Formula]:
    return {(f.op, f.variant): f for f in formulas()}


@lru_cache(maxsize=1)
def _reductions() -> dict[str, Reduction]:
    return {f.op: f for f in reductions()}


@cache
def _tree(text: str) -> ast.expr:
    return ast.parse(text.strip().replace("\n", " "), mode="eval").body


class Interpreter:
    """Evaluates formulas with the functions of an array module.

    Words that the module lacks are taken from `extra`; what neither has is a NotImplementedError,
    which leaves the call to the device's next way.
    """

    RENAMED: ClassVar[dict[str, str]] = {
        "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
        "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "round": "rint",
        "abs": "absolute",
    }  # fmt: skip

    def __init__(self, module: Any, extra: dict[str, Any] | None = None) -> None:
        self.module, self.extra = module, extra or {}

    def pointwise(self, op: str, variant: str, inputs: Any, values: Any, dtype: Any) -> list[Any]:
        """The results of an operator for arrays of the `dtype` to compute in (masks: bool)."""
        np = self.module
        formula = _formulas().get((op, variant))
        if formula is None:
            raise NotImplementedError(op)
        names = dict(zip(formula.inputs, inputs, strict=True))
        for (name, kind, _), v in zip(formula.values, values, strict=True):
            names[name] = v if v is None or kind == "bool" else np.asarray(v).astype(dtype)
        return [self.value(_tree(text), names) for text in formula.texts]

    def reduction(self, op: str, start: Any, elements: Any) -> Any:
        """The last accumulator of a reduction over an iterable of arrays."""
        reduction = _reductions()[op]
        if reduction.step is None:
            raise NotImplementedError(op)
        acc = start
        for element in elements:
            acc = (
                element
                if acc is None
                else self.value(_tree(reduction.step), {"acc": acc, "self": element})
            )
        return acc

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        np = self.module
        match node:
            case ast.Constant(value=v):
                return v
            case ast.Name(id=text):
                if text in names:
                    return names[text]
                return {"inf": float("inf"), "nan": float("nan"), **constants()}[text]
            case ast.IfExp(test=t, body=a, orelse=b):
                return self._where(t, a, b, names)
            case ast.Call(func=ast.Name(id="where"), args=[t, a, b]):
                return self._where(t, a, b, names)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.call(name, *(self.value(a, names) for a in args))
            case ast.BoolOp(op=op, values=parts):
                both = isinstance(op, ast.And)
                result = self.value(parts[0], names)
                for part in parts[1:]:
                    if isinstance(result, bool):  # whether an argument is given
                        result = self.value(part, names) if result == both else result
                        continue
                    result = (np.logical_and if both else np.logical_or)(
                        result, self.value(part, names)
                    )
                return result
            case ast.UnaryOp(op=ast.Not(), operand=a):
                return np.logical_not(self.value(a, names))
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return np.negative(self.value(a, names))
            case ast.UnaryOp(op=ast.Invert(), operand=a):
                return np.invert(self.value(a, names))
            case ast.UnaryOp(operand=a):
                return self.value(a, names)
            case ast.Compare(left=a, ops=[op], comparators=[b]):
                if isinstance(op, (ast.Is, ast.IsNot)):
                    return (self.value(a, names) is None) == isinstance(op, ast.Is)
                return self._sign(op, self.value(a, names), self.value(b, names))
            case ast.BinOp(left=a, op=op, right=b):
                return self._sign(op, self.value(a, names), self.value(b, names))
        raise NotImplementedError(ast.unparse(node))

    def _where(self, test: ast.expr, a: ast.expr, b: ast.expr, names: dict[str, Any]) -> Any:
        condition = self.value(test, names)
        if isinstance(
            condition, bool
        ):  # whether an argument is given: the other side may not exist
            return self.value(a if condition else b, names)
        return self.module.where(condition, self.value(a, names), self.value(b, names))

    def _sign(self, op: ast.AST, a: Any, b: Any) -> Any:
        name = {
            ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
            ast.FloorDiv: "floor_divide", ast.Mod: "remainder", ast.Pow: "power",
            ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor",
            ast.LShift: "left_shift", ast.RShift: "right_shift", ast.Lt: "less",
            ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
            ast.NotEq: "not_equal",
        }[type(op)]  # fmt: skip
        if name in ("floor_divide", "remainder", "left_shift", "right_shift"):
            raise NotImplementedError(
                name
            )  # the rules for 0 and for shifts past the width are not NumPy's
        return getattr(self.module, name)(a, b)

    def call(self, name: str, *args: Any) -> Any:
        np = self.module
        if name in self.extra:
            return self.extra[name](*args)
        if name == "mul0":
            return np.where(args[0] == 0, 0 * args[0], args[0] * args[1])
        if name == "within":
            x, low, high = args
            if not bool(np.all((x >= low) & (x <= high))):
                raise ValueError(f"all elements must be in [{low}, {high}], but one is not")
            return x
        if name == "sigmoid":
            return 1 / (1 + np.exp(-args[0]))
        if name == "sigmoid_slope":
            part = np.exp(-np.abs(args[0]))
            return part / ((1 + part) * (1 + part))
        if name == "sec":
            return 1 / np.cos(args[0])
        if name == "acosh_slope":
            return 1 / (np.sqrt(args[0] - 1) * np.sqrt(args[0] + 1))
        if name == "sech":
            return 1 / np.cosh(args[0])
        if name == "gauss":
            return np.exp(-args[1] * args[0] * args[0])
        if name in ("one_minus_square", "sqrt_one_minus_square"):
            value = (1 - args[0]) * (1 + args[0])
            return value if name == "one_minus_square" else np.sqrt(value)
        if name in ("atan_slope", "asinh_slope"):
            value = 1 + args[0] * args[0]
            return 1 / (value if name == "atan_slope" else np.sqrt(value))
        if name == "rsqrt":
            return 1 / np.sqrt(args[0])
        if name == "reciprocal":
            return 1 / args[0]
        found = getattr(np, self.RENAMED.get(name, name), None)
        if found is None or name in ("gcd", "lcm", "ldexp", "pow", "fmod", "angle", "sgn", "sign"):
            raise NotImplementedError(name)
        try:
            return found(*args)
        except TypeError as error:  # of a dtype that the module's function does not take
            raise NotImplementedError(name) from error

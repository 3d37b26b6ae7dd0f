"""Reads ops.yaml into the model; every mistake of the file is collected and reported in one run."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from . import expr, signature
from .errors import Errors, SchemaError, SchemaErrors, nearest
from .model import (
    THROUGH_COMPOSITE,
    Check,
    Derivative,
    Formula,
    Location,
    MathFunction,
    Operator,
    Place,
    Schema,
    ShapeRule,
    Signature,
)
from .source import Record, Source

KINDS = (
    "pointwise",
    "reduction",
    "scan",
    "view",
    "factory",
    "random",
    "matmul",
    "structured",
    "composite",
    "mutation",
)
DTYPE_CLASSES = ("bool", "int", "float", "complex")
PROMOTIONS = ("float", "same", "bool", "real", "none")
VARIANTS = ("inplace", "out")
DEVICES = ("CPU", "CUDA", "any")
POLICY_WORDS = {
    "deterministic": ("true", "false"),
    "nan": ("propagate", "ignore", "last", "first"),
    "ties": ("first", "last", "share", "any"),
    "empty": ("zero", "one", "nan", "error", "identity", "empty"),
    "aliasing": ("self",),  # the kernel takes self itself as its out: in-place forms need no copy
}
POLICIES = tuple(POLICY_WORDS)
TOKENS = (
    *[
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "@",
        "&",
        "|",
        "^",
        "<<",
        ">>",
        "<",
        "<=",
        ">",
        ">=",
        "==",
        "!=",
        "~",
    ],
    "unary -",
    "unary +",
    "abs()",
)
DEFAULT_VARIANTS = {
    "pointwise": ("inplace", "out"),
    "reduction": ("out",),
    "scan": ("out",),
    "matmul": ("out",),
    "structured": ("out",),
}
KEYS: dict[str, tuple[str, ...]] = {
    "op": (
        *[
            "op",
            "doc",
            "kind",
            "scalar",
            "dtypes",
            "promote",
            "masks",
            "kept",
            "shape",
            "dispatch",
            "composite",
            "composite_fn",
        ],
        *[
            "derivative",
            "forward",
            "variants",
            "python",
            "overload",
            "alias",
            "internal",
            "samples",
            "reference",
        ],
        *["property", "tolerance", "checks"],
        *POLICIES,
    ),
    "math": ("math", "derivative", "holomorphic"),
    "rule": ("rule",),
}
_MATH = re.compile(r"([a-z_]\w*)\(\s*([a-z_]\w*(?:\s*,\s*[a-z_]\w*)*)\s*\)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def read_schema(path: str | Path, name: str | None = None) -> Schema:
    """Read a schema file; raises SchemaErrors with every mistake found in it."""
    schema, errors = read_records(path, name)
    errors.raise_if_any()
    return schema


def read_records(path: str | Path, name: str | None = None) -> tuple[Schema, Errors]:
    """The records that could be read, and the mistakes; what is no YAML at all raises."""
    errors = Errors()
    source = Source(Path(path), name)
    root = source.compose()
    if root is None:
        return Schema((), (), ()), errors
    if not isinstance(root, SequenceNode):
        raise SchemaErrors([_top_error(source)])
    math: list[MathFunction] = []
    rules: list[ShapeRule] = []
    operators: list[Operator] = []
    for item in root.value:
        if not isinstance(item, MappingNode) or not item.value:
            errors.add(source.place(item), "", "a record is a mapping with 'op', 'math' or 'rule'")
            continue
        first = item.value[0][0]
        kind = first.value if isinstance(first, ScalarNode) else ""
        if kind not in KEYS:
            hint = nearest(kind, KEYS)
            message = f"a record begins with 'op', 'math' or 'rule', found '{kind}'{hint}"
            errors.add(source.place(first), "", message)
            continue
        reader = _RecordReader(source, item, kind, errors)
        if kind == "math":
            math.extend(reader.math())
        elif kind == "rule":
            rules.extend(reader.rule())
        else:
            operators.extend(reader.operator())
    return Schema(tuple(math), tuple(rules), tuple(operators)), errors


def _top_error(source: Source) -> SchemaError:
    return SchemaError(source.top, "", "the file is a list of records: - op: ..., - math: ...")


class _RecordReader:
    def __init__(self, source: Source, node: MappingNode, kind: str, errors: Errors) -> None:
        head = node.value[0][1]
        text = head.value if isinstance(head, ScalarNode) else ""
        subject = re.split(r"[(\s]", text.strip(), maxsplit=1)[0]
        self.source = source
        self.errors = errors
        self.kind = kind
        self.record = Record(source, node, subject, errors)
        self.location = Location(source.file, *_line_column(node))
        self.places: dict[str, Place] = {k: Place(at) for k, at in self.record.keys.items()}
        for key in self.record.left():
            if key not in KEYS[kind]:
                self.record.take(key)
                place = self.record.keys[key]
                known = ", ".join(KEYS[kind]) if len(KEYS[kind]) < 4 else ""
                hint = nearest(key, KEYS[kind]) or (f"; known are {known}" if known else "")
                self.record.error(place, f"unknown key '{key}'{hint}")

    # ---- pieces ----

    def formula(self, node: ScalarNode, *, program: bool = False, skip: str = "") -> Formula | None:
        """Parse the text of a node, without a leading `skip` such as `scalar:`."""
        start = 0
        if skip:
            start = len(skip)
            while node.value[start : start + 1] == " ":
                start += 1
        text = node.value[start:].rstrip()
        runs = tuple(
            (max(o - start, 0), ln, c + max(start - o, 0)) for o, ln, c in self._from(node, start)
        )
        location = Location(self.source.file, *runs[0][1:]) if runs else self.source.place(node)
        if not text:
            self.record.error(node, "an empty formula")
            return None
        try:
            return expr.parse(text, location, runs, program=program)
        except expr.FormulaError as error:
            empty = Formula(text, _NOTHING, location, runs)
            self.record.error(empty.at(error.offset), error.message)
            return None

    def _from(self, node: ScalarNode, start: int) -> tuple[tuple[int, int, int], ...]:
        runs = self.source.runs(node)
        first = max((i for i, run in enumerate(runs) if run[0] <= start), default=0)
        return runs[first:]

    def signature(self, key: str) -> Signature | None:
        node = self.record.take(key)
        text = self.record.text(node, f"'{key}'") if node is not None else None
        if text is None:
            return None
        try:
            return signature.parse(text.value)
        except signature.SignatureError as error:
            empty = Formula(text.value, _NOTHING, self.source.place(text), self.source.runs(text))
            self.record.error(empty.at(error.column), error.message)
            return None

    def words(self, key: str, known: Collection[str], default: tuple[str, ...]) -> tuple[str, ...]:
        node = self.record.take(key)
        if node is None:
            return default
        found: list[str] = []
        for item in self.record.text_list(node, f"'{key}'"):
            if known and item.value not in known:
                hint = nearest(item.value, known) or f"; known are {', '.join(known)}"
                self.record.error(item, f"unknown word '{item.value}' in '{key}'{hint}")
            elif item.value in found:
                self.record.error(item, f"'{item.value}' is given twice in '{key}'")
            else:
                self.note(f"{key}.{len(found)}", item)
                found.append(item.value)
        return tuple(found)

    def note(self, key: str, node: Node) -> None:
        """Keep where a text stands, for mistakes that only later stages can see."""
        runs = self.source.runs(node) if isinstance(node, ScalarNode) else ()
        self.places[key] = Place(self.source.place(node), runs)

    def word(self, key: str, known: Collection[str]) -> str | None:
        node = self.record.take(key)
        text = self.record.text(node, f"'{key}'") if node is not None else None
        if text is None:
            return None
        if known and text.value not in known:
            hint = nearest(text.value, known) or f"; known are {', '.join(known)}"
            self.record.error(text, f"unknown word '{text.value}' for '{key}'{hint}")
            return None
        self.note(key, text)
        return str(text.value)

    def flag(self, key: str, default: bool) -> bool:
        return {"true": True, "false": False, None: default}[self.word(key, ("true", "false"))]

    # ---- records ----

    def rule(self) -> list[ShapeRule]:
        parsed = self.signature("rule")
        return [ShapeRule(parsed, self.location)] if parsed else []

    def math(self) -> list[MathFunction]:
        record = self.record
        head = record.take("math")
        node = record.take("derivative")
        holomorphic = self.flag("holomorphic", True)
        match = _MATH.fullmatch(head.value) if isinstance(head, ScalarNode) else None
        if match is None:
            record.error(head or record.location, "a vocabulary entry is written like 'pow(x, y)'")
            return []
        arguments = tuple(a.strip() for a in match[2].split(","))
        if node is None:
            record.error(record.location, "missing key 'derivative': a formula, or 'zero'")
            return []
        slopes: dict[str, Formula | None] = {}
        if isinstance(node, MappingNode):
            inner = record.mapping(node, "'derivative'")
            for key, value in inner.items() if inner else ():
                if key not in arguments:
                    place = inner.keys[key] if inner else record.location
                    record.error(place, f"no argument '{key}'{nearest(key, arguments)}")
                slopes[key] = self._slope(value)
        else:
            slope = self._slope(node)
            if slope is not None and len(arguments) > 1:
                record.error(node, "several arguments need a mapping {x: ..., y: ...} or 'zero'")
            slopes = dict.fromkeys(arguments, slope)
        for missing in [a for a in arguments if a not in slopes]:
            record.error(node, f"no derivative for '{missing}': a formula, or 'zero'")
        found = tuple(slopes.get(a) for a in arguments)
        return [MathFunction(match[1], arguments, found, self.location, holomorphic)]

    def _slope(self, node: Node) -> Formula | None:
        text = self.record.text(node, "a derivative")
        return None if text is None or text.value == "zero" else self.formula(text)

    def operator(self) -> list[Operator]:
        parsed = self.signature("op")
        doc, example = self._doc()
        scalar, by_variant = self._scalar(parsed)
        composite_node, composite_fn = self.record.take("composite"), self.word("composite_fn", ())
        composite = None
        if composite_node is not None:
            text = self.record.text(composite_node, "'composite'")
            composite = self.formula(text, program=True) if text else None
        has_scalar = "scalar" in self.record.keys
        has_composite = "composite" in self.record.keys or composite_fn is not None
        kind = self._kind(has_scalar, has_composite)
        dtypes = self.words("dtypes", DTYPE_CLASSES, ("float",))
        promote = self.word("promote", PROMOTIONS)
        derivatives, auto = self._derivatives(parsed)
        forward, forward_formula, forward_reason = self._forward(auto)
        tolerance, tolerance_reason = self._tolerance()
        self.word("overload", ())
        fields: dict[str, Any] = {
            "location": self.location,
            "kind": kind,
            "doc": doc,
            "example": example,
            "scalar": scalar,
            "scalar_variants": by_variant,
            "dtypes": dtypes,
            "promote": promote or ("same" if "int" in dtypes or kind != "pointwise" else "float"),
            "masks": self.words("masks", (), ()),
            "kept": self.words("kept", (), ()),
            "shape": self._formulas("shape"),
            "dispatch": self._dispatch(),
            "composite": composite,
            "composite_fn": composite_fn,
            "auto": auto,
            "derivatives": derivatives,
            "forward": forward,
            "forward_formula": forward_formula,
            "forward_reason": forward_reason,
            "variants": self.words("variants", VARIANTS, DEFAULT_VARIANTS.get(kind, ())),
            "python": self._python(),
            "alias": self.words("alias", (), ()),
            "internal": self.flag("internal", False),
            "samples": self.words("samples", (), ()),
            "reference": self.word("reference", ()),
            "property_test": self.word("property", ()),
            "tolerance": tolerance,
            "tolerance_reason": tolerance_reason,
            "checks": self._checks(),
            "policies": tuple((k, w) for k in POLICIES if (w := self.word(k, ())) is not None),
            "places": self.places,
        }
        if parsed is None:
            return []
        op = Operator(signature=parsed, **fields)
        if not op.samples and op.scalar:
            op = op.replace(samples=default_samples(op))
        return [op]

    def _doc(self) -> tuple[str, str]:
        """Sentence and example; a doc of one line may end in `>>> CODE -> OUTPUT`."""
        node = self.record.take("doc")
        if node is None:
            self.record.error(self.location, "missing key 'doc': a sentence and an example")
            return "", ""
        text = self.record.text(node, "'doc'")
        doc = text.value.strip() if text else ""
        sentence, mark, example = doc.partition(">>>")
        if text and not sentence.strip():
            self.record.error(text, "'doc' begins with a sentence")
        if mark and "\n" not in doc:
            code, arrow, output = example.rpartition(" -> ")
            example = f"{code}\n{output}" if arrow else example
        return sentence.strip(), f"{mark}{example}".strip()

    def _scalar(self, parsed: Signature | None) -> tuple[tuple[tuple[str, Formula], ...], bool]:
        node = self.record.take("scalar")
        if node is None:
            return (), False
        if isinstance(node, ScalarNode):
            formula = self.formula(node)
            return ((("", formula),) if formula else ()), False
        inner = self.record.mapping(node, "'scalar'")
        found: list[tuple[str, Formula]] = []
        for key, value in inner.items() if inner else ():
            text = self.record.text(value, f"formula '{key}'")
            formula = self.formula(text) if text else None
            if formula:
                found.append((key, formula))
        outputs = {r.name for r in parsed.returns} if parsed else set()
        return tuple(found), bool(parsed) and {k for k, _ in found} != outputs

    def _kind(self, has_scalar: bool, has_composite: bool) -> str:
        stated = self.word("kind", KINDS)
        given = "kind" in self.record.keys
        if has_scalar:
            if given and stated != "pointwise":
                self.record.error(self.record.keys["kind"], "'scalar' makes the kind pointwise")
            return "pointwise"
        if stated is None and has_composite and not given:
            return "composite"
        if not given:
            self.record.error(
                self.location, f"missing key 'kind' (or 'scalar', 'composite'): {', '.join(KINDS)}"
            )
        return stated or "composite"

    def _formulas(self, key: str) -> tuple[Formula, ...]:
        node = self.record.take(key)
        if node is None:
            return ()
        found = [self.formula(item) for item in self.record.text_list(node, f"'{key}'")]
        return tuple(f for f in found if f is not None)

    def _dispatch(self) -> tuple[tuple[str, str], ...]:
        node = self.record.take("dispatch")
        inner = self.record.mapping(node, "'dispatch'") if node is not None else None
        found: list[tuple[str, str]] = []
        if inner is None:
            return ()
        for device, value in inner.items():
            symbol = self.record.text(value, f"the kernel of {device}")
            if symbol is not None and not re.fullmatch(r"[A-Za-z_]\w*", symbol.value):
                self.record.error(symbol, f"'{symbol.value}' is no C++ name; 'none' for no kernel")
            elif symbol is not None:
                found.append((device, symbol.value))
                self.places[f"dispatch.{device}"] = Place(inner.keys[device])
        return tuple(found)

    def _derivatives(self, parsed: Signature | None) -> tuple[tuple[Derivative, ...], bool]:
        node = self.record.take("derivative")
        if node is None:
            return (), False
        inputs = _tensor_inputs(parsed)
        place = self.source.place(node)
        if isinstance(node, ScalarNode) and node.value == "composite":
            if "composite" not in self.record.keys and "composite_fn" not in self.record.keys:
                self.record.error(
                    node, "'derivative: composite' needs the key 'composite' or 'composite_fn'"
                )
            return tuple(
                Derivative((name,), place, none=THROUGH_COMPOSITE) for name in inputs
            ), False
        if isinstance(node, ScalarNode) and node.value == "auto":
            return tuple(Derivative((name,), place, auto=True) for name in inputs), True
        whole = self._whole(node)
        if whole is not None:
            found = self._derivative(inputs, whole)
            each = [found] if found else []
            return tuple(
                Derivative((n,), d.location, zero=d.zero, none=d.none) for d in each for n in inputs
            ), False
        inner = self.record.mapping(node, "'derivative'")
        result: list[Derivative] = []
        if inner is None:
            return (), False
        for key, value in inner.items():
            names = tuple(name.strip() for name in key.split(","))
            for name in names:
                self.places.setdefault(f"derivative.{name}", Place(inner.keys[key]))
            one = self._derivative(names, value)
            if one:
                result.append(one)
        return tuple(result), False

    def _whole(self, node: Node) -> Node | None:
        """The node when it speaks for all inputs: `zero`, `none: reason` or {none: reason}."""
        if isinstance(node, ScalarNode):
            if node.value == "zero" or node.value.startswith("none:"):
                return node
            self.record.error(
                node, "a derivative is 'auto', 'zero', 'composite', 'none: reason' or a mapping"
            )
            return None
        if isinstance(node, MappingNode) and [k.value for k, _ in node.value] == ["none"]:
            return node
        return None

    def _derivative(self, names: tuple[str, ...], node: Node) -> Derivative | None:
        place = self.source.place(node)
        if isinstance(node, MappingNode):
            inner = self.record.mapping(node, "a derivative")
            items = inner.items() if inner else []
            if len(items) != 1 or items[0][0] not in ("none", "scalar"):
                self.record.error(
                    node, "expected a formula, 'zero', {none: reason} or {scalar: ...}"
                )
                return None
            key, value = items[0]
            text = self.record.text(value, f"'{key}'")
            if text is None:
                return None
            if key == "none":
                return self._no_derivative(names, text, text.value)
            formula = self.formula(text)
            return Derivative(names, place, scalar=formula) if formula else None
        text = self.record.text(node, "a derivative")
        if text is None:
            return None
        value_text: str = text.value
        if value_text == "zero":
            return Derivative(names, place, zero=True)
        if value_text == "auto":
            return Derivative(names, place, auto=True)
        if value_text.startswith("none:"):
            return self._no_derivative(names, text, value_text[len("none:") :])
        if value_text.startswith("scalar:"):
            formula = self.formula(text, skip="scalar:")
            return Derivative(names, place, scalar=formula) if formula else None
        formula = self.formula(text, program=True)
        return Derivative(names, place, formula=formula) if formula else None

    def _no_derivative(self, names: tuple[str, ...], node: Node, reason: str) -> Derivative | None:
        if not reason.strip():
            self.record.error(node, "'none' needs its reason: 'none: reason'")
            return None
        return Derivative(names, self.source.place(node), none=reason.strip())

    def _forward(self, auto: bool) -> tuple[str, Formula | None, str]:
        node = self.record.take("forward")
        if node is None:
            return ("elementwise" if auto else "none"), None, ""
        if isinstance(node, MappingNode) and [k.value for k, _ in node.value] == ["none"]:
            return "none", None, str(node.value[0][1].value)
        text = self.record.text(node, "'forward'")
        if text is None:
            return "none", None, ""
        if text.value == "composite" and not {"composite", "composite_fn"} & set(self.record.keys):
            self.record.error(
                node, "'forward: composite' needs the key 'composite' or 'composite_fn'"
            )
        if text.value in ("elementwise", "linear", "composite"):
            return text.value, None, ""
        if text.value.startswith("none:"):
            return "none", None, text.value[len("none:") :].strip()
        return "formula", self.formula(text, program=True), ""

    def _tolerance(self) -> tuple[tuple[tuple[str, float], ...], str]:
        node = self.record.take("tolerance")
        inner = self.record.mapping(node, "'tolerance'") if node is not None else None
        found: list[tuple[str, float]] = []
        reason = ""
        for key, value in inner.items() if inner else ():
            text = self.record.text(value, f"tolerance '{key}'")
            if text is None:
                continue
            if key == "reason":
                reason = text.value
            elif key not in signature.DTYPES:
                hint = nearest(key, signature.DTYPES)
                self.record.error(
                    inner.keys[key] if inner else node or self.location,
                    f"unknown dtype '{key}'{hint}",
                )
            else:
                try:
                    found.append((key, float(text.value)))
                except ValueError:
                    self.record.error(text, f"'{text.value}' is not a number")
        if node is not None and not reason.strip():
            self.record.error(node, "a tolerance needs its 'reason'")
        return tuple(found), reason

    def _python(self) -> tuple[str, ...]:
        found = self.words("python", (), ("function", "method"))
        for path in found:
            if path not in TOKENS and not _DOTTED.fullmatch(path):
                hint = nearest(path, TOKENS)
                place = self.record.keys["python"]
                self.record.error(place, f"'{path}' is neither a dotted path nor an operator{hint}")
        return found

    def _checks(self) -> tuple[Check, ...]:
        node = self.record.take("checks")
        inner = self.record.mapping(node, "'checks'") if node is not None else None
        found: list[Check] = []
        for label, value in inner.items() if inner else ():
            body = self.record.mapping(value, f"check '{label}'")
            if body is None:
                continue
            require, error = body.take("require"), body.take("error")
            if require is None or error is None or body.left():
                self.record.error(value, f"check '{label}' has the keys 'require' and 'error'")
                continue
            text, message = (
                self.record.text(require, "'require'"),
                self.record.text(error, "'error'"),
            )
            formula = self.formula(text) if text else None
            if formula and message:
                found.append(Check(label, formula, message.value))
        return tuple(found)


def default_samples(op: Operator) -> tuple[str, ...]:
    """Samples of a pointwise operator that states none: whole, empty, 0-d and broadcast inputs."""
    needed = [a for a in op.signature.arguments if a.default is None]
    if not all(a.type.is_tensor for a in needed):
        return ()
    if "float" in op.dtypes:
        maker, extra = "f", ""
    else:
        maker, extra = ("i", "low=-9,high=9") if "int" in op.dtypes else ("b", "")
    shapes = [["3,4"] * len(needed), ["0"] * len(needed), [""] * len(needed)]
    if len(needed) > 1:
        shapes.insert(1, ["3,4", *["4"] * (len(needed) - 1)])
        shapes.insert(2, ["3,1", *["1,4"] * (len(needed) - 1)])
    samples = []
    for sizes in shapes:
        samples.append(
            ", ".join(f"{maker}({','.join(x for x in (size, extra) if x)})" for size in sizes)
        )
    return tuple(samples)


def _line_column(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _tensor_inputs(parsed: Signature | None) -> tuple[str, ...]:
    if parsed is None:
        return ()
    return tuple(a.name for a in parsed.arguments if a.type.base == "Tensor")


_NOTHING = ast.Pass()

"""Reads ops.yaml into the model; every mistake of the file is collected and reported in one run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from . import axes, families, gradients, signs
from .dtypes import DTYPES
from .errors import Errors, SchemaError, SchemaErrors, nearest, suggestion
from .families import Member
from .fields import Fields
from .model import (
    Check,
    Formula,
    MathFunction,
    Operator,
    Place,
    Schema,
    ShapeRule,
    Signature,
)
from .samples import default_samples, each_of
from .source import Source
from .words import (
    ALIKE_CLASSES,
    AUTOCAST_DEVICES,
    AUTOCASTS,
    BATCH_ROLES,
    BATCHES,
    DEFAULT_VARIANTS,
    DTYPE_CLASSES,
    ERRORS,
    KEYS,
    KINDS,
    PLACES,
    POLICY_WORDS,
    PROMOTIONS,
    TRAITS,
    ULP_KEYS,
    VARIANTS,
)

_MATH = re.compile(r"([a-z_]\w*)\(\s*([a-z_]\w*(?:\s*,\s*[a-z_]\w*)*)\s*\)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_RECORDS = "'op', 'define', 'math' or 'rule'"
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


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
        message = "the file is a list of records: - op: ..., - math: ..."
        raise SchemaErrors([SchemaError(source.top, "", message)])
    found: dict[str, list[Any]] = {kind: [] for kind in KEYS}
    for item in root.value:
        kind = _kind_of(source, item, errors)
        if kind is None:
            continue
        for member in families.members(source, item, errors) if kind == "op" else [Member(item)]:
            fields = Fields(source, member.node, kind, errors)
            record = _operator(fields, member.family) if kind == "op" else _READERS[kind](fields)
            found[kind] += [] if record is None else [record]
    kinds = ("math", "rule", "op", "define")
    return Schema(*(tuple(found[kind]) for kind in kinds)), errors


def _kind_of(source: Source, item: Node, errors: Errors) -> str | None:
    """What a record is, by its first key."""
    if not isinstance(item, MappingNode) or not item.value:
        errors.add(source.place(item), "", f"a record is a mapping with {_RECORDS}")
        return None
    first = item.value[0][0]
    kind = str(first.value) if isinstance(first, ScalarNode) else ""
    if kind in KEYS:
        return kind
    later = [k.value for k, _ in item.value[1:] if k.value in KEYS]
    hint = f"; '{later[0]}' comes first" if later else nearest(kind, KEYS)
    message = f"a record begins with {_RECORDS}, found '{kind}'{hint}"
    errors.add(source.place(first), "", message)
    return None


# ---- the vocabulary and shape rules ----


def _rule(fields: Fields) -> ShapeRule | None:
    parsed = fields.signature("rule")
    return ShapeRule(parsed, fields.location) if parsed else None


def _math(fields: Fields) -> MathFunction | None:
    head, node = fields.take("math"), fields.take("derivative")
    holomorphic = fields.flag("holomorphic", True)
    alike = fields.words("alike", ALIKE_CLASSES, ())
    onnx = fields.formula(node_) if (node_ := fields.text("onnx")) else None
    match = _MATH.fullmatch(head.value) if isinstance(head, ScalarNode) else None
    if match is None:
        fields.error(head or fields.location, "a vocabulary entry is written like 'pow(x, y)'")
        return None
    arguments = tuple(a.strip() for a in match[2].split(","))
    if node is None:
        fields.error(fields.location, "missing key 'derivative': a formula, or 'zero'")
        return None
    slopes = _slopes(fields, node, arguments)
    for missing in [a for a in arguments if a not in slopes]:
        fields.error(node, f"no derivative for '{missing}': a formula, or 'zero'")
    found = tuple(slopes.get(a) for a in arguments)
    return MathFunction(match[1], arguments, found, fields.location, holomorphic, alike, onnx)


def _slopes(fields: Fields, node: Node, arguments: tuple[str, ...]) -> dict[str, Formula | None]:
    """The derivative by each argument; None is zero."""
    if not isinstance(node, MappingNode):
        slope = _slope(fields, node)
        if slope is not None and len(arguments) > 1:
            fields.error(node, "several arguments need a mapping {x: ..., y: ...} or 'zero'")
        return dict.fromkeys(arguments, slope)
    slopes: dict[str, Formula | None] = {}
    for key, place, value in fields.entries(node, "'derivative'"):
        if key not in arguments:
            hint = suggestion(key, arguments, "the arguments are")
            fields.error(place, f"no argument '{key}'{hint}")
        slopes[key] = _slope(fields, value)
    return slopes


def _slope(fields: Fields, node: Node) -> Formula | None:
    text = fields.record.text(node, "a derivative")
    return None if text is None or text.value == "zero" else fields.formula(text)


# ---- operators ----


def _operator(fields: Fields, family: str) -> Operator | None:
    parsed = fields.signature("op")
    scalar, by_variant = _scalar(fields, parsed)
    composite = fields.text("composite")
    kind = _kind(fields)
    internal = fields.flag("internal", False)
    forms = () if internal else DEFAULT_VARIANTS.get(kind, ())
    dtypes = fields.words("dtypes", DTYPE_CLASSES, ("float",))
    default_promotion = "same" if "int" in dtypes or kind != "pointwise" else "float"
    derivatives, auto = gradients.derivatives(fields, parsed)
    by_element = auto or any(d.scalar is not None for d in derivatives)
    forward, forward_formula, forward_reason = gradients.forward(fields, by_element)
    values: dict[str, Any] = {
        "location": fields.location,
        "kind": kind,
        "doc": _doc(fields),
        "example": _example(fields),
        "scalar": scalar,
        "scalar_variants": by_variant,
        "dtypes": dtypes,
        "promote": fields.word("promote", PROMOTIONS) or default_promotion,
        "masks": fields.words("masks"),
        "kept": fields.words("kept"),
        "flops": fields.formula(flops) if (flops := fields.text("flops")) else None,
        "onnx": fields.formula(onnx, program=True) if (onnx := fields.text("onnx")) else None,
        "autocast": _autocast(fields),
        "shape": fields.formulas("shape"),
        "dispatch": _dispatch(fields),
        "reduction": _reduction(fields),
        "axes": _axes(fields, parsed),
        **_batch(fields),
        "batch_fn": _function(fields, "batch_fn"),
        "composite": fields.formula(composite, program=True) if composite else None,
        "composite_fn": _function(fields, "composite_fn"),
        "opaque": fields.word("opaque") or "",
        "derivatives": derivatives,
        "forward": forward,
        "forward_formula": forward_formula,
        "forward_reason": forward_reason,
        "variants": fields.words("variants", VARIANTS, forms),
        "python": _python(fields),
        "alias": _aliases(fields),
        "internal": internal,
        "family": family,
        "samples": _samples(fields),
        "reference": fields.word("reference"),
        "property_test": fields.word("property"),
        "tolerance": _tolerance(fields),
        "ulp": _ulp(fields),
        "checks": _checks(fields),
        "traits": fields.words("traits", TRAITS),
        "policies": tuple(
            (k, w) for k, known in POLICY_WORDS.items() if (w := fields.word(k, known)) is not None
        ),
        "places": fields.places,
    }
    if parsed is None:
        return None
    op = Operator(signature=parsed, **values)
    return op.replace(samples=default_samples(op)) if op.scalar and not op.samples else op


def _samples(fields: Fields) -> tuple[str, ...]:
    """The calls, of which `each(...)` makes several."""
    texts = fields.words("samples")
    places = [fields.places[f"samples.{i}"] for i in range(len(texts))]
    found: list[str] = []
    for text, place in zip(texts, places, strict=True):
        samples = each_of(text)
        for sample in samples:
            at = place if len(samples) == 1 else Place(place.location)
            fields.places[f"samples.{len(found)}"] = at
            found.append(sample)
    return tuple(found)


def _definition(fields: Fields) -> Operator | None:
    parsed = fields.signature("define")
    composite = fields.text("composite")
    values: dict[str, Any] = {
        "doc": _doc(fields),
        "example": "",
        "composite": fields.formula(composite, program=True) if composite else None,
        "composite_fn": _function(fields, "composite_fn"),
        "opaque": fields.word("opaque") or "",
        "checks": _checks(fields),
        "traits": fields.words("traits", TRAITS),
        "places": fields.places,
    }
    if parsed is None:
        return None
    return Operator(parsed, fields.location, "composite", internal=True, definition=True, **values)


def _doc(fields: Fields) -> str:
    text = fields.text("doc")
    if text is None:
        if not fields.has("doc"):
            fields.error(fields.location, "missing key 'doc': what it computes, in a sentence")
        return ""
    doc = str(text.value).strip()
    if ">>>" in doc:
        message = (
            "'doc' is sentences; the example is 'example', where `python -m codegen fmt` moves it"
        )
        fields.error(text, message)
    elif not doc:
        fields.error(text, "'doc' is a sentence")
    return doc


def _example(fields: Fields) -> str:
    text = fields.text("example")
    if text is None:
        return ""
    example = str(text.value).strip()
    if not example.startswith(">>> "):
        fields.error(text, "'example' begins with `>>> ` and code, its output below")
    return example


def _scalar(
    fields: Fields, parsed: Signature | None
) -> tuple[tuple[tuple[str, Formula], ...], bool]:
    """The formulas, and whether their keys are values of an argument rather than outputs."""
    node = fields.take("scalar")
    if node is None:
        return (), False
    if isinstance(node, ScalarNode):
        formula = fields.formula(node)
        return ((("", formula),) if formula else ()), False
    found: list[tuple[str, Formula]] = []
    for key, _, value in fields.entries(node, "'scalar'"):
        text = fields.record.text(value, f"formula '{key}'")
        formula = fields.formula(text) if text else None
        if formula:
            found.append((key, formula))
    outputs = {r.name for r in parsed.returns} if parsed else set()
    return tuple(found), bool(parsed) and {k for k, _ in found} != outputs


def _kind(fields: Fields) -> str:
    stated = fields.word("kind", KINDS)
    given = fields.has("kind")
    if fields.has("scalar"):
        if given and stated != "pointwise":
            fields.error(fields.record.keys["kind"], "'scalar' makes the kind pointwise")
        return "pointwise"
    if not given and fields.has("dispatch") and fields.has("shape"):
        return "structured"
    if not given and not fields.has("composite", "composite_fn"):
        message = f"missing key 'kind' (or 'scalar', 'composite'): {', '.join(KINDS)}"
        fields.error(fields.location, message)
    return stated or "composite"


def _autocast(fields: Fields) -> tuple[tuple[str, str], ...]:
    """The cast of each class of devices; one word is that of all."""
    node = fields.take("autocast")
    if node is None:
        return ()
    if isinstance(node, ScalarNode):
        word = _cast_word(fields, node)
        return tuple((device, word) for device in AUTOCAST_DEVICES) if word else ()
    found: list[tuple[str, str]] = []
    for device, place, value in fields.entries(node, "'autocast'"):
        word = _cast_word(fields, value)
        if device not in AUTOCAST_DEVICES:
            hint = suggestion(device, AUTOCAST_DEVICES)
            fields.error(place, f"unknown device '{device}' in 'autocast'{hint}")
        elif word:
            found.append((device, word))
    if len(found) == len(AUTOCAST_DEVICES) and len({word for _, word in found}) == 1:
        fields.error(node, f"'autocast: {found[0][1]}' says it of every device")
    return tuple(found)


def _cast_word(fields: Fields, node: Node) -> str | None:
    text = fields.record.text(node, "a word of 'autocast'")
    if text is None:
        return None
    if text.value not in AUTOCASTS:
        hint = suggestion(text.value, AUTOCASTS)
        fields.error(text, f"unknown word '{text.value}' for 'autocast'{hint}")
        return None
    return str(text.value)


def _dispatch(fields: Fields) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for device, place, value in fields.entries(fields.take("dispatch"), "'dispatch'"):
        symbol = fields.record.text(value, f"the kernel of {device}")
        if symbol is not None and not _IDENTIFIER.fullmatch(symbol.value):
            fields.error(symbol, f"'{symbol.value}' is no C++ name; 'none' for no kernel")
        elif symbol is not None:
            found.append((device, symbol.value))
            fields.places[f"dispatch.{device}"] = Place(place)
    return tuple(found)


def _reduction(fields: Fields) -> tuple[tuple[str, Formula], ...]:
    found: list[tuple[str, Formula]] = []
    for key, _, value in fields.entries(fields.take("reduction"), "'reduction'"):
        text = fields.record.text(value, f"'{key}' of the reduction")
        formula = fields.formula(text) if text else None
        if formula:
            found.append((key, formula))
    return tuple(found)


def _axes(fields: Fields, parsed: Signature | None) -> str:
    text = fields.text("axes")
    if text is None:
        return ""
    fields.note("axes", text)
    try:
        return str(axes.parse(text.value, parsed)) if parsed is not None else ""
    except axes.AxesError as error:
        fields.error(fields.places["axes"].at(error.offset), error.message)
        return ""


def _batch(fields: Fields) -> dict[str, Any]:
    """One word of all arguments, or the roles of those that tell."""
    node = fields.take("batch")
    if node is None:
        return {}
    if isinstance(node, ScalarNode):
        text = fields.record.text(node, "'batch'")
        if text is not None and text.value not in BATCHES:
            hint = suggestion(text.value, BATCHES)
            fields.error(text, f"unknown word '{text.value}' for 'batch'{hint}")
            return {}
        return {"batch": str(text.value)} if text is not None else {}
    items = node.value if isinstance(node, SequenceNode) else [node]
    return {"batch": "leading", "batch_rules": tuple(_roles(fields, item) for item in items)}


def _roles(fields: Fields, node: Node) -> tuple[tuple[str, str], ...]:
    roles: list[tuple[str, str]] = []
    for name, _, value in fields.entries(node, "'batch'"):
        text = fields.record.text(value, f"the role of '{name}'")
        if text is not None and text.value not in BATCH_ROLES:
            hint = suggestion(text.value, BATCH_ROLES)
            fields.error(text, f"unknown word '{text.value}' in 'batch'{hint}")
        elif text is not None:
            roles.append((name, str(text.value)))
    return tuple(roles)


def _function(fields: Fields, key: str) -> str | None:
    found = fields.word(key)
    if found is not None and not _IDENTIFIER.fullmatch(found):
        hint = "; a formula over operators goes to 'composite'" if key == "composite_fn" else ""
        fields.error(fields.places[key].location, f"'{found}' is no C++ name{hint}")
    return found


def _aliases(fields: Fields) -> tuple[str, ...]:
    found = fields.words("alias")
    for i, name in enumerate(found):
        if not _IDENTIFIER.fullmatch(name):
            message = f"'{name}' is no Python name; paths such as nn.functional.x go to 'python'"
            fields.error(fields.places[f"alias.{i}"].location, message)
    return found


def _tolerance(fields: Fields) -> tuple[tuple[str, float], ...]:
    node = fields.take("tolerance")
    found: list[tuple[str, float]] = []
    reason = ""
    for key, place, value in fields.entries(node, "'tolerance'"):
        text = fields.record.text(value, f"tolerance '{key}'")
        if text is None:
            continue
        if key == "reason":
            reason = text.value
        elif key not in DTYPES:
            fields.error(place, f"unknown dtype '{key}'{suggestion(key, DTYPES)}")
        else:
            try:
                found.append((key, float(text.value)))
            except ValueError:
                fields.error(text, f"'{text.value}' is not a number")
    if isinstance(node, MappingNode) and not reason.strip():
        fields.error(node, "a tolerance needs its 'reason'")
    return tuple(found)


def _ulp(fields: Fields) -> tuple[tuple[str, float], ...]:
    """Limits of error in units of the last place."""
    node = fields.take("ulp")
    found: list[tuple[str, float]] = []
    reason = ""
    for key, place, value in fields.entries(node, "'ulp'"):
        text = fields.record.text(value, f"ulp '{key}'")
        if key == "reason":
            reason = text.value if text is not None else ""
        elif key not in ULP_KEYS:
            fields.error(place, f"unknown key '{key}' of 'ulp'{suggestion(key, ULP_KEYS)}")
        elif text is not None:
            try:
                limit = float(text.value)
            except ValueError:
                limit = 0.0
            if limit >= 0.5:
                found.append((key, limit))
            else:
                fields.error(
                    text,
                    f"'{text.value}' is no limit: a number of 0.5 or more",
                )
    if isinstance(node, MappingNode) and not reason.strip():
        fields.error(node, "limits of 'ulp' need their 'reason'")
    return tuple(found)


def _python(fields: Fields) -> tuple[str, ...]:
    found = fields.words("python", default=("function", "method"))
    known = (*PLACES, *sorted(signs.ALL))
    for i, path in enumerate(found):
        if path in known or ("." in path and _DOTTED.fullmatch(path)):
            continue
        near = nearest(path, PLACES)
        if near or not _DOTTED.fullmatch(path):
            hint = near or suggestion(path, known)
            message = f"'{path}' is neither a place, a dotted path nor an operator{hint}"
            fields.error(fields.places[f"python.{i}"].location, message)
    return found


def _checks(fields: Fields) -> tuple[Check, ...]:
    found: list[Check] = []
    for label, _, value in fields.entries(fields.take("checks"), "'checks'"):
        if isinstance(value, ScalarNode):
            call = fields.formula(value)
            found += [Check(label, call=call)] if call else []
            continue
        body = fields.record.mapping(value, f"check '{label}'")
        if body is None:
            continue
        require, error, raises = body.take("require"), body.take("error"), body.take("raises")
        if require is None or error is None or body.left():
            message = f"check '{label}' has the keys 'require' and 'error', and may have 'raises'"
            fields.error(value, message)
            continue
        kind = body.text(raises, "'raises'") if raises is not None else None
        if kind is not None and kind.value not in ERRORS:
            hint = suggestion(kind.value, tuple(ERRORS))
            fields.error(kind, f"unknown error '{kind.value}'{hint}")
            continue
        text, shown = body.text(require, "'require'"), body.text(error, "'error'")
        formula = fields.formula(text) if text else None
        words = fields.formula(shown, text=True) if shown else None
        if formula and words:
            found.append(Check(label, formula, words, kind.value if kind else "ValueError"))
    return tuple(found)


_READERS: dict[str, Callable[[Fields], Any]] = {
    "define": _definition,
    "math": _math,
    "rule": _rule,
}

"""JSON Schema of ops.yaml, for completion and checking in editors.

It knows the form of records: keys, words and types. What needs understanding (names, formulas,
signatures as a whole) is the business of `check`.
"""

from __future__ import annotations

import json
from typing import Any

from . import families
from .dtypes import DTYPES
from .words import (
    ALIKE_CLASSES,
    AUTOCAST_DEVICES,
    AUTOCASTS,
    BATCH_ROLES,
    BATCHES,
    DEVICES,
    DTYPE_CLASSES,
    ERRORS,
    KEYS,
    KINDS,
    POLICY_WORDS,
    PROMOTIONS,
    TRAITS,
    ULP_KEYS,
    VARIANTS,
)

_SIGNATURE = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\(.*\) -> .+$"
_FORMULA: dict[str, Any] = {"type": ["string", "number"]}
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}


def _words(*words: str) -> dict[str, Any]:
    """A word of a list; YAML reads `true` and `false` as values of their own."""
    values: list[str | bool] = [*words]
    values += [w == "true" for w in words if w in ("true", "false")]
    return {"enum": values}


def _list(items: dict[str, Any], *, unique: bool = True) -> dict[str, Any]:
    """A list, or a single item."""
    return {"anyOf": [{"type": "array", "items": items, "uniqueItems": unique}, items]}


def _mapping(values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, "minProperties": 1, **more}


def _reason(prefix: str) -> dict[str, Any]:
    return {"type": "string", "pattern": rf"^{prefix}:\s*\S"}


def _computing() -> dict[str, Any]:
    """Keys of what an operator computes, and where."""
    return {
        "op": {
            "type": "string",
            "pattern": _SIGNATURE,
            "description": "signature, e.g. cumsum(Tensor self, int dim) -> Tensor",
        },
        "doc": {**_TEXT, "description": "what it computes, in a sentence or more"},
        "example": {
            "type": "string",
            "pattern": "^>>> ",
            "description": "lines `>>> code` with their output below",
        },
        "kind": _words(*KINDS),
        "reduction": {
            "type": "object",
            "properties": {"start": _FORMULA, "step": _FORMULA, "index": _FORMULA},
            "additionalProperties": False,
        },
        "scalar": {
            "anyOf": [_FORMULA, _mapping(_FORMULA)],
            "description": "formula of the elements, or one for each variant or output",
        },
        "dtypes": _list(_words(*DTYPE_CLASSES)),
        "promote": _words(*PROMOTIONS),
        "masks": _list(_TEXT),
        "kept": _list(_TEXT),
        "autocast": {
            "anyOf": [
                _words(*AUTOCASTS),
                {
                    "type": "object",
                    "properties": {device: _words(*AUTOCASTS) for device in AUTOCAST_DEVICES},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ],
            "description": "the dtype that autocast runs it in, on each kind of device",
        },
        "shape": {
            **_list(_TEXT, unique=False),
            "description": "shape rule over the arguments, one an output",
        },
        "dispatch": {
            "type": "object",
            "properties": {device: {"type": "string", "pattern": r"^\w+$"} for device in DEVICES},
            "additionalProperties": False,
            "minProperties": 1,
            "description": "kernel of each device, or none",
        },
        "axes": {
            "type": "string",
            "pattern": r"^\(.*\) *-> *\(.*\)$",
            "description": "dims that it treats alike, e.g. (...,m,k), (...,k,n) -> (...,m,n)",
        },
        "batch": {
            "anyOf": [
                _words(*BATCHES),
                _mapping(_words(*BATCH_ROLES)),
                # One after the other is tried; none at all asks nothing of the arguments.
                {
                    "type": "array",
                    "items": {**_mapping(_words(*BATCH_ROLES)), "minProperties": 0},
                    "minItems": 2,
                },
            ],
            "description": "how one call serves a batch of calls, as vmap makes it",
        },
        "batch_fn": {"type": "string", "pattern": r"^[A-Za-z_]\w*$"},
        "composite": {**_FORMULA, "description": "tensor expression or program over operators"},
        "composite_fn": {"type": "string", "pattern": r"^[A-Za-z_]\w*$"},
        "opaque": {**_TEXT, "description": "why composite_fn or batch_fn is C++ and no formula"},
    }


def _gradients() -> dict[str, Any]:
    """Keys of derivatives."""
    one = {
        "anyOf": [
            _FORMULA,
            {
                "type": "object",
                "properties": {"none": _TEXT, "scalar": _FORMULA},
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }
    whole = [_words("auto", "zero", "composite"), _reason("none"), _mapping(one)]
    return {
        "derivative": {
            "anyOf": whole,
            "description": "auto, or for each tensor input a formula, zero or none: reason",
        },
        "forward": {"anyOf": [_TEXT, {"type": "object", "properties": {"none": _TEXT}}]},
        "flops": {**_FORMULA, "description": "operations of a call, by shapes and arguments"},
        "onnx": {**_FORMULA, "description": "what a call is in ONNX, in operators of ONNX"},
    }


def _names() -> dict[str, Any]:
    """Keys of the forms and names that Python sees."""
    return {
        "variants": _list(_words(*VARIANTS)),
        "python": _list(_TEXT),
        "alias": _list(_TEXT),
        "internal": {"type": "boolean"},
    }


def _test_specification() -> dict[str, Any]:
    """Keys of samples, references, checks and policies."""
    return {
        "samples": {
            "type": "array",
            "items": {"type": ["string", "number"]},
            "description": 'calls such as "f(3,4), dim=1"',
        },
        "reference": {**_FORMULA, "description": "NumPy or SciPy expression over the arguments"},
        "property": {**_TEXT, "description": "a test that stands instead of a reference"},
        "tolerance": {
            "type": "object",
            "properties": {"reason": _TEXT, **{d: {"type": ["number", "string"]} for d in DTYPES}},
            "required": ["reason"],
            "additionalProperties": False,
        },
        "ulp": {
            "type": "object",
            "properties": {
                "reason": _TEXT,
                **{k: {"type": "number", "minimum": 0.5} for k in ULP_KEYS},
            },
            "required": ["reason"],
            "additionalProperties": False,
        },
        "checks": _mapping(
            {
                "anyOf": [
                    {"type": "string", "pattern": r"^\w+\(", "description": "a rule that checks"},
                    {
                        "type": "object",
                        "properties": {"require": _TEXT, "error": _TEXT, "raises": _words(*ERRORS)},
                        "required": ["require", "error"],
                        "additionalProperties": False,
                    },
                ]
            }
        ),
        "traits": _list(_words(*TRAITS)),
        **{key: _words(*words) for key, words in POLICY_WORDS.items()},
    }


def _family(operator: dict[str, Any]) -> dict[str, Any]:
    """Keys of a record that stands for several operators: what one has, or that of each member."""
    words = {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 2}
    columns = _mapping(words, description="words of the members: `{n}` in a text is the member's")
    one = {key: {"$ref": f"#/$defs/op/properties/{key}"} for key in operator}
    by_member = {key: {"anyOf": [ref, _mapping(ref)]} for key, ref in one.items()}
    head = {**operator["op"], "pattern": r"^[A-Za-z_{][\w{}]*(\.[A-Za-z_]\w*)?\(.*\) -> .+$"}
    return {**by_member, "op": head, families.KEY: columns}


def schema() -> dict[str, Any]:
    math = {
        "math": {"type": "string", "pattern": r"^[a-z_]\w*\([\w, ]+\)$"},
        "derivative": {"anyOf": [_FORMULA, _mapping(_FORMULA)]},
        "holomorphic": {"type": "boolean"},
        "alike": _list(_words(*ALIKE_CLASSES)),
        "onnx": {**_FORMULA, "description": "the function, in operators of ONNX"},
    }
    operator = {**_computing(), **_gradients(), **_names(), **_test_specification()}
    head = {"type": "string", "pattern": _SIGNATURE, "description": "what formulas call it by"}
    define = {**operator, "define": head}
    rule = {"rule": {"type": "string", "pattern": _SIGNATURE}}
    records = {
        "op": operator,
        "family": _family(operator),
        "define": define,
        "math": math,
        "rule": rule,
    }
    required = {
        "op": ["op", "doc"],
        "family": ["op", "family", "doc"],
        "define": ["define", "doc"],
        "math": ["math", "derivative"],
        "rule": ["rule"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ops.yaml: the operators of facula",
        "type": "array",
        "items": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in records]},
        "$defs": {
            kind: {
                "type": "object",
                "properties": {
                    key: properties[key]
                    for key in KEYS.get(kind, KEYS["op"])
                    if key != families.KEY or kind == families.KEY
                },
                "required": required[kind],
                "additionalProperties": False,
            }
            for kind, properties in records.items()
        },
    }


def text() -> str:
    return json.dumps(schema(), indent=1) + "\n"

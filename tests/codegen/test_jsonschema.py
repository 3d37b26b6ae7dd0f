"""The JSON Schema takes ops.yaml itself and refuses records of a wrong form."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from codegen.__main__ import ROOT, main
from codegen.schema.jsonschema import schema as json_schema
from codegen.schema.words import KEYS

jsonschema = pytest.importorskip("jsonschema")
VALIDATOR = jsonschema.Draft202012Validator(json_schema())
GOOD = {"op": "f(Tensor self) -> Tensor", "doc": "F.", "scalar": "self", "derivative": "auto"}
FAMILY = {**GOOD, "op": "f{n}(Tensor self) -> Tensor", "family": {"n": [1, 2]}}
BAD: dict[str, Any] = {
    "no record": 3,
    "unknown first key": {"opp": "f(Tensor self) -> Tensor", "doc": "F."},
    "no doc": {"op": "f(Tensor self) -> Tensor"},
    "example without code": {**GOOD, "example": "1"},
    "no signature": {**GOOD, "op": "f"},
    "unknown key": {**GOOD, "smaples": []},
    "unknown kind": {**GOOD, "kind": "structurd"},
    "unknown dtype class": {**GOOD, "dtypes": ["floats"]},
    "unknown cast": {**GOOD, "autocast": "lowest"},
    "cast of an unknown device": {**GOOD, "autocast": {"CUDA": "lower"}},
    "unknown variant": {**GOOD, "variants": ["inplce"]},
    "word twice": {**GOOD, "variants": ["out", "out"]},
    "unknown device": {**GOOD, "dispatch": {"CPUs": "f"}},
    "tolerance without reason": {**GOOD, "tolerance": {"float32": 1e-3}},
    "check without error": {**GOOD, "checks": {"c1": {"require": "dim > 0"}}},
    "check of an unknown error": {
        **GOOD,
        "checks": {"c1": {"require": "dim > 0", "error": "wrong", "raises": "Error"}},
    },
    "check that calls nothing": {**GOOD, "checks": {"c1": "dim > 0"}},
    "derivative with two keys": {**GOOD, "derivative": {"self": {"none": "x", "scalar": "y"}}},
    "internal as text": {**GOOD, "internal": "yes"},
    "family without columns": {**FAMILY, "family": [1, 2]},
    "family of one": {**FAMILY, "family": {"n": [1]}},
    "member of an unknown kind": {**FAMILY, "kind": {"1": "structurd"}},
    "vocabulary without derivative": {"math": "f(x)"},
    "rule with more": {"rule": "r(Tensor self) -> Meta", "doc": "R."},
}


def test_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_takes_the_file() -> None:
    records = yaml.safe_load((ROOT / "ops.yaml").read_text(encoding="utf-8"))
    faults = [f"{e.json_path}: {e.message}"[:300] for e in VALIDATOR.iter_errors(records)]
    assert faults == []


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    assert VALIDATOR.is_valid([GOOD, FAMILY, {**FAMILY, "samples": {"1": ["f(3)"]}}])
    assert not VALIDATOR.is_valid([BAD[name]])


def test_knows_every_key() -> None:
    defined = {kind: set(of["properties"]) for kind, of in json_schema()["$defs"].items()}
    assert defined.pop("family") == set(KEYS["op"])
    defined["op"].add("family")
    assert defined == {kind: set(keys) for kind, keys in KEYS.items()}


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jsonschema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()

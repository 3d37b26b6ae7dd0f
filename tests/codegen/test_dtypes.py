"""The dtypes that the generator knows are those of C++ and of the device interface."""

from __future__ import annotations

import re

from codegen.__main__ import ROOT
from codegen.schema.dtypes import ALIASES, DTYPES


def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_of_the_core() -> None:
    stated = re.findall(r'^  X\([\w:]+, (\w+), "(\w+)"\)', source("runtime/core/dtype.h"), re.M)
    assert tuple(text for _, text in stated) == DTYPES
    assert [name.lower() for name, _ in stated] == [*DTYPES]


def test_of_the_device_interface() -> None:
    body = re.search(
        r"enum \{([^}]*)FACULA_DTYPES\s*\};", source("python/facula/include/facula/backend.h")
    )
    assert body is not None
    names = [f"facula_{name}" for name in DTYPES]
    assert [n.lower() for n in re.findall(r"FACULA_\w+", body[1])] == names


def test_further_names() -> None:
    found = re.findall(
        r'\{"(\w+)", ScalarType::(\w+)\}', source("runtime/bindings/types/dtype.cpp")
    )
    assert {alias: name.lower() for alias, name in found} == ALIASES

"""The device works as facula's own do."""

from __future__ import annotations

import facula as fa
from facula.testing import conformance


def test_first_steps() -> None:
    x = fa.ones(2, 3).to("@NAME@")
    assert x.device.type == "@NAME@" and (x + x).sum().item() == 12
    assert fa.@NAME@.device_count() >= 1


def test_conformance() -> None:
    report = conformance.run("@NAME@")
    assert not report.failures, report.failures[:5]

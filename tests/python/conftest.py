"""What the tests of the Python part share."""

from __future__ import annotations

import facula
import pytest


@pytest.fixture(autouse=True)
def _seeded():
    facula.manual_seed(0)

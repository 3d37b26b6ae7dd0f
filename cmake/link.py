#!/usr/bin/env python3
"""Runs the command that links the module: `link.py LINKER ARGUMENT...`; see codegen/linking.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from codegen.linking import link  # noqa: E402

sys.exit(link(ROOT / "ops.yaml", sys.argv[1:]))

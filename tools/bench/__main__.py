"""`python tools/bench`: see `cli.py`."""

import sys
from pathlib import Path

# The folder of this file would hide nothing but its own names; the package is found from the root.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bench.cli import main  # noqa: E402

main()

#!/usr/bin/env python3
"""Prints the shell block of README.md that follows `<!-- ci: NAME -->`."""

import re
import sys
from pathlib import Path

text = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
name = sys.argv[1]
match = re.search(rf"<!-- ci: {re.escape(name)} -->\n```sh\n(.*?)```", text, re.S)
if match is None:
    sys.exit(f"README.md has no block marked {name}")
print(match.group(1), end="")

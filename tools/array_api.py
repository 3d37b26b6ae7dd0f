#!/usr/bin/env python3
"""Runs the public test suite of the Array API standard on facula.

    git clone --recursive https://github.com/data-apis/array-api-tests
    .venv/bin/pip install hypothesis ndindex pytest-json-report
    .venv/bin/python tools/array_api.py PATH_OF_THE_SUITE [options] [pytest's own options]

-m MODULE, the namespace: `facula.array_api`, which tensors name as theirs (default), or `facula`.
-n EXAMPLES of each test (default 100), -v VERSION of the standard (default 2024.12).

What `array_api_expected.txt` beside this file lists is expected to fail, each with its reason:
cases that the standard leaves to the library. The exit status is pytest's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", type=Path)
    parser.add_argument("-m", dest="module", default="facula.array_api")
    parser.add_argument("-n", dest="examples", type=int, default=100)
    parser.add_argument("-v", dest="version", default="2024.12")
    options, more = parser.parse_known_args()
    tests = options.suite / "array_api_tests"
    if not tests.is_dir():
        parser.error(f"{options.suite} has no folder array_api_tests; clone the suite as above")
    environment = os.environ | {
        "ARRAY_API_TESTS_MODULE": options.module,
        "ARRAY_API_TESTS_VERSION": options.version,
    }
    expected = Path(__file__).with_name("array_api_expected.txt").resolve()
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    command += ["--rootdir=.", "--disable-deadline", "--max-examples", str(options.examples)]
    command += ["--xfails-file", str(expected), "array_api_tests", *more]
    return subprocess.run(command, cwd=options.suite, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the header that says what extensions fit: `abi.py VERSION OUT HEADER...`.

The stamp holds the version and a digest of the headers that extensions are compiled with: memory
layouts and inline functions of theirs are in the extension.
"""

import hashlib
import sys
from pathlib import Path

TEXT = """\
// Generated: what an extension and the facula that loads it must agree on.
#pragma once

#include <string>  // says which of its two ABIs the C++ library has

#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define FACULA_ABI "{stamp}-old-strings"
#else
#define FACULA_ABI "{stamp}"
#endif
"""

version, out, *headers = sys.argv[1:]
digest = hashlib.sha256()
for header in sorted(headers, key=lambda path: Path(path).as_posix()):
    digest.update(Path(header).read_bytes())
text = TEXT.format(stamp=f"{version}-{digest.hexdigest()[:12]}")
target = Path(out)
if not target.exists() or target.read_text(encoding="utf-8") != text:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")

"""The generator: from ops.yaml to C++, stubs, pages and data."""

import importlib.util

_MISSING = [
    package
    for package, module in (("pyyaml", "yaml"), ("jinja2", "jinja2"))
    if importlib.util.find_spec(module) is None
]
if _MISSING:
    raise ModuleNotFoundError(
        f"{__name__} needs {' and '.join(_MISSING)}: pip install {' '.join(_MISSING)}"
    )

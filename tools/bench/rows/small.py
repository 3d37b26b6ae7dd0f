"""One element, from Python: what a call costs before any work is done."""

from __future__ import annotations

from tools.bench.row import Family, Versus

rows = Family("small")


@rows.add(
    "{code}",
    0.15,
    code=["a + b", "lib.add(a, b)"],
    statement=lambda code: code,
    numpy=True,
    also=Versus("numpy", 0.7),
)
def binary(lib, inputs, code):
    """The operator and the function, of two tensors of one element."""
    return {"a": inputs.floats(1), "b": inputs.floats(1), "lib": lib}


@rows.add(
    "{code}",
    0.15,
    code=["-a", "abs(a)", "lib.exp(a)", "lib.sqrt(a)", "a < b", "a == b", "a + 1", "a * 2.5"],
    statement=lambda code: code,
    numpy=True,
)
def unary(lib, inputs, code):
    """Unary operators, comparisons and arithmetic with a number."""
    return {"a": inputs.floats(1, low=0.5, high=1.0), "b": inputs.floats(1), "lib": lib}


@rows.add(
    "{code}",
    0.15,
    code=["a.relu()", "a.sigmoid()", "a.add_(b)", "a.sum()"],
    statement=lambda code: code,
)
def methods(lib, inputs, code):
    return {"a": inputs.floats(1), "b": inputs.floats(1) * 0}


VIEWS = {
    "x.view(8, 8)": "x.reshape(8, 8)",
    "x[3]": "x[3:4]",  # NumPy's x[3] makes a number, not a view
    "x[3:9]": "x[3:9]",
    "m.t()": "m.transpose()",
}


@rows.add(
    "{code}",
    0.2,
    code=list(VIEWS),
    statement=lambda code: code,
    numpy_statement=lambda code: VIEWS[code],
    numpy=True,
    also=Versus("numpy", 1.5),
)
def views(lib, inputs, code):
    return {"x": inputs.floats(64), "m": inputs.floats(8, 8)}


@rows.add(
    "{code}",
    0.2,
    code=["lib.empty(3)", "lib.zeros(3)", "lib.tensor([1., 2.])"],
    statement=lambda code: code,
    tolerance=lambda code: None if "empty" in code else 1e-6,
)
def creation(lib, inputs, code):
    return {"lib": lib}

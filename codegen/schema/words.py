"""The words of ops.yaml: kinds of operators, keys of records and what their values may be."""

from __future__ import annotations

import math

KINDS = (
    "pointwise",
    "reduction",
    "scan",
    "view",
    "factory",
    "random",
    "matmul",
    "structured",
    "composite",
    "mutation",
)
DTYPE_CLASSES = ("bool", "int", "float", "complex")
ALIKE_CLASSES = ("float", "complex")  # integers are exact anyway
PROMOTIONS = ("float", "same", "bool", "real", "none")
AUTOCASTS = ("lower", "float32", "widest")
AUTOCAST_DEVICES = ("CPU", "device")
VARIANTS = ("inplace", "out")
DEFAULT_VARIANTS = {
    "pointwise": ("inplace", "out"),
    "reduction": ("out",),
    "scan": ("out",),
    "matmul": ("out",),
    "structured": ("out",),
}
DEVICES = ("CPU", "device", "any")  # device: every one of a package
# Python's exceptions and the kinds that C++ raises them by.
ERRORS = {
    "ValueError": "Value",
    "RuntimeError": "Runtime",
    "TypeError": "Type",
    "IndexError": "Index",
    "NotImplementedError": "NotImplemented",
    "LinAlgError": "LinAlg",
}
# Exceptions that a namespace of operators has beside them.
EXCEPTIONS = {"linalg": ("LinAlgError",)}
# What the calls of a batch have in common: see codegen/emit/batching.py.
BATCHES = ("elements", "leading", "rows", "parts")
BATCH_ROLES = (
    *("aligned", "fold", "channels", "alone"),  # of tensors
    *("groups", "dim", "reduced", "new_dim", "order", "sizes", "expanded", "strides"),  # of ints
)
FORWARD = ("elementwise", "linear", "composite")
POLICY_WORDS = {
    "aliasing": ("self",),  # the kernel takes self itself as its out: in-place forms need no copy
}
# What no formula tells of kernels and C++ compositions; codegen/tensor/traits.py says it.
TRAITS = ("may_alias", "value_dependent", "random")
# What formulas of `flops` may call and ask of tensors.
FLOPS_FUNCTIONS = ("len", "max", "min", math.prod.__name__)
FLOPS_FACTS = ("ndim", "numel", "shape", "size")
# What formulas of `onnx` may call beside methods and operators of ONNX, which begin with a capital.
ONNX_FUNCTIONS = (
    *(
        "len",
        "range",
        "int",
        math.prod.__name__,
        "number",
        "dims",
        "wrap_dim",
        "swapped",
        "pads",
        "filled",
    ),
)
# Limits of error in units of the last place: of values by dtype, and of gradients in each.
ULP_KEYS = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    "gradient",
)
# The keys of records, in the order that `fmt` brings them to.
KEYS: dict[str, tuple[str, ...]] = {
    "op": (
        *("op", "family", "doc", "example"),
        *(
            "kind",
            "scalar",
            "dtypes",
            "promote",
            "masks",
            "autocast",
            "shape",
            "dispatch",
            "reduction",
            "axes",
            "batch",
            "batch_fn",
        ),
        *("composite", "composite_fn", "opaque", "derivative", "forward", "kept", "flops", "onnx"),
        *("variants", "python", "alias", "internal", "traits", *POLICY_WORDS, "checks"),
        *("samples", "reference", "property", "tolerance", "ulp"),
    ),
    "define": ("define", "doc", "composite", "composite_fn", "opaque", "traits", "checks"),
    "math": ("math", "derivative", "holomorphic", "alike", "onnx"),
    "rule": ("rule",),
}
# Entries of `python` that are neither signs nor dotted paths.
PLACES = ("function", "method", "property")

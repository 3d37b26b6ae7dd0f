"""The rows of the table, a file a family."""

# As the table shows them.
ORDER = [
    "small",
    "graph",
    "transforms",
    "training",
    "elementwise",
    "dtypes",
    "reductions",
    "normalization",
    "layout",
    "indexing",
    "order",
    "random",
    "matmul",
    "linalg",
    "fourier",
    "convolution",
    "attention",
    "data",
    "memory",
    "package",
    "card memory",
    "card host",
    "card arithmetic",
    "card models",
]

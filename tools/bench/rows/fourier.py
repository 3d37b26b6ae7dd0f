"""Fourier transforms. SciPy's are pocketfft's as well, of one thread unless `workers` says more."""

from __future__ import annotations

from tools.bench.row import Family, Versus

rows = Family("fourier", tolerance=1e-4)
NUMPY = (Versus("numpy", 1.0),)


def signal(inputs, shape, dtype):
    """Normal numbers, of complex dtypes their pairs."""
    if dtype == "complex64":
        return inputs.normal(*shape) + 1j * inputs.normal(*shape)
    return inputs.normal(*shape)


def numpy_transform(lib, inputs, call, shape, dtype="complex64"):
    import scipy.fft

    x, function = signal(inputs, shape, dtype), getattr(scipy.fft, call)
    return lambda: function(x)


@rows.add(
    "{call} {shape}",
    1.0,
    call="fft",
    shape=[(1 << 20,), (1_000_003,), (64, 4096)],
    numpy=numpy_transform,
    also=NUMPY,
)
def complex_lines(lib, inputs, call, shape):
    x, function = signal(inputs, shape, "complex64"), getattr(lib.fft, call)
    return lambda: function(x)


@rows.add(
    "{call} {shape}", 1.0, call="fft2", shape=[(1024, 1024)], numpy=numpy_transform, also=NUMPY
)
def planes(lib, inputs, call, shape):
    x, function = signal(inputs, shape, "complex64"), getattr(lib.fft, call)
    return lambda: function(x)


@rows.add(
    "{call} {shape}",
    1.0,
    call="rfft",
    shape=[(1 << 20,), (64, 4096)],
    numpy=lambda lib, inputs, call, shape: numpy_transform(lib, inputs, call, shape, "float32"),
    also=NUMPY,
)
def real_lines(lib, inputs, call, shape):
    x, function = signal(inputs, shape, "float32"), getattr(lib.fft, call)
    return lambda: function(x)

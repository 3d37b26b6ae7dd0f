"""Fourier transforms beyond the samples: sizes of every kind, round trips, errors, gradients."""

from __future__ import annotations

import functools
from typing import Any

import facula as fa
import numpy as np
import pytest
import scipy.fft
import scipy.signal
from facula.autograd import gradcheck, gradgradcheck
from harness import run_python

NORMS = (None, "backward", "ortho", "forward")
PAIRS = {"float32": "complex64", "float64": "complex128"}
# Lines that pocketfft's plans take whole (small factors, a large prime), lines in two parts, alone
# or too few to fill vectors, and convolutions.
SIZES = (1, 2, 3, 17, 128, 343, 1021, 1024, 1030, 2310, 4093, 4096, 5000)
LARGE = (1 << 16, 65537, 3 * 32768 + 32768 // 4, 2 * 50021, 131071, 99999, 1 << 17, 131075)


def random(*shape: int, dtype: str = "complex128", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype[0] == "c" else a).astype(dtype)


def close(got: fa.Tensor, want: np.ndarray, dtype: Any, times: float = 16) -> None:
    """To a few units in the last place of the root mean square, as the error of a transform is."""
    found = got.detach().numpy()
    assert found.shape == want.shape
    size = np.sqrt(np.mean(np.abs(want) ** 2)) if want.size else 1.0
    error = np.sqrt(np.mean(np.abs(found - want) ** 2)) if want.size else 0.0
    assert error <= times * np.finfo(dtype).eps * max(size, 1e-300)


@pytest.mark.parametrize("lines", [1, 2, 3, 21])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("real", PAIRS)
def test_sizes(real: str, n: int, lines: int) -> None:
    z, x = random(lines, n, dtype=PAIRS[real]), random(lines, n, dtype=real)
    wide, real_wide = z.astype(np.complex128), x.astype(np.float64)
    assert fa.fft.fft(fa.tensor(z)).dtype == getattr(fa, PAIRS[real])
    close(fa.fft.fft(fa.tensor(z)), np.fft.fft(wide), real)
    close(fa.fft.ifft(fa.tensor(z)), np.fft.ifft(wide), real)
    close(fa.fft.fft(fa.tensor(x)), np.fft.fft(real_wide), real)
    close(fa.fft.rfft(fa.tensor(x)), np.fft.rfft(real_wide), real)
    close(fa.fft.ihfft(fa.tensor(x)), np.fft.ihfft(real_wide), real)
    half, half_wide = z[:, : n // 2 + 1], wide[:, : n // 2 + 1]
    close(fa.fft.irfft(fa.tensor(half), n), np.fft.irfft(half_wide, n), real)
    close(fa.fft.hfft(fa.tensor(half), n), np.fft.hfft(half_wide, n), real)


@pytest.mark.parametrize("n", LARGE)
def test_large(n: int) -> None:
    z, x = random(n), random(n, dtype="float64")
    close(fa.fft.fft(fa.tensor(z)), scipy.fft.fft(z), "float64")
    close(fa.fft.ifft(fa.tensor(z)), scipy.fft.ifft(z), "float64")
    for m in (2 * n, 2 * n + 1) if n < 70000 else (n,):
        x = random(m, dtype="float64")
        close(fa.fft.fft(fa.tensor(x)), scipy.fft.fft(x), "float64")
        close(fa.fft.rfft(fa.tensor(x)), scipy.fft.rfft(x), "float64")
        close(fa.fft.ihfft(fa.tensor(x)), scipy.fft.ihfft(x), "float64")
        half = random(m // 2 + 1)
        close(fa.fft.irfft(fa.tensor(half), m), scipy.fft.irfft(half, m), "float64")
        close(fa.fft.hfft(fa.tensor(half), m), scipy.fft.hfft(half, m), "float64")
    narrow = z.astype(np.complex64)
    close(fa.fft.fft(fa.tensor(narrow)), scipy.fft.fft(narrow.astype(np.complex128)), "float32")


def test_a_few_long_lines_in_any_layout() -> None:
    z = random(3, 1 << 16, 2)
    t = fa.tensor(z)
    close(fa.fft.fft(t, dim=1), scipy.fft.fft(z, axis=1), "float64")
    close(fa.fft.fft(t.transpose(0, 1), dim=0), scipy.fft.fft(z, axis=1).swapaxes(0, 1), "float64")
    close(fa.fft.rfft(t.real, dim=1), scipy.fft.rfft(z.real, axis=1), "float64")
    close(fa.fft.irfft(t, 131070, dim=1), scipy.fft.irfft(z, 131070, axis=1), "float64")
    wide = t[:1, :, :1].expand(3, 1 << 16, 2)
    close(fa.fft.fft(wide, dim=1), scipy.fft.fft(wide.numpy(), axis=1), "float64")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "rfft", "hfft"])
def test_round_trips(name: str, norm: str | None) -> None:
    there, back = getattr(fa.fft, name + "n"), getattr(fa.fft, f"i{name}n")
    x = fa.tensor(random(3, 4, 6, dtype="complex128" if name == "fft" else "float64"))
    if name == "hfft":
        there, back = back, there
    y = there(x, dim=(0, -1), norm=norm)
    again = back(y, (3, 6), (0, -1), norm)
    assert fa.allclose(again, x)
    if norm == "ortho" and name == "fft":  # Parseval
        assert np.isclose(y.abs().square().sum().item(), x.abs().square().sum().item())


def test_impulse_and_wave() -> None:
    n = 3 * (1 << 15)
    impulse = fa.zeros(n)
    impulse[1] = 1
    k = np.arange(n)
    close(fa.fft.fft(impulse), np.exp(-2j * np.pi * k / n), "float32")
    wave = fa.exp(fa.tensor(2j * np.pi * 5 * k / n))
    spectrum = fa.fft.fft(wave)
    assert spectrum.abs().argmax().item() == 5
    assert abs(spectrum[5].item() - n) < 1e-6


@pytest.mark.parametrize("name", ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn", "irfft2"])
def test_several_dims_of_all_layouts(name: str) -> None:
    x = random(5, 3, 4, 8, dtype="float64" if name[0] == "r" else "complex128")
    for order in [(0, 1, 2, 3), (3, 1, 0, 2), (2, 0, 3, 1)]:
        for dims in [(0, 1), (-1, 0), (2, 1)]:
            got = getattr(fa.fft, name)(fa.tensor(x).permute(order), dim=dims)
            close(got, getattr(np.fft, name)(x.transpose(order), axes=dims), "float64")
    for name_scipy in ("hfftn", "ihfftn"):
        y = x.real if name_scipy == "ihfftn" else x
        got = getattr(fa.fft, name_scipy)(fa.tensor(y), dim=(1, 3))
        close(got, getattr(scipy.fft, name_scipy)(y, axes=(1, 3)), "float64")


def test_integers_take_the_default_dtype() -> None:
    assert fa.fft.fft(fa.arange(4)).dtype == fa.complex64
    assert fa.fft.irfft(fa.tensor([True, False, True])).dtype == fa.float32
    fa.set_default_dtype(fa.float64)
    try:
        assert fa.fft.rfft(fa.arange(4)).dtype == fa.complex128
    finally:
        fa.set_default_dtype(fa.float32)


def test_no_dims() -> None:
    x = fa.ones(2, 3)
    y = fa.fft.fftn(x, dim=())
    assert y.dtype == fa.complex64
    assert fa.equal(y.real, x)
    z = x + 0j
    assert fa.fft.ifftn(z, dim=()).data_ptr() != z.data_ptr()
    assert fa.fft.fftn(fa.tensor(2.0)).item() == 2


X = fa.ones(4, 5)
ERRORS = {
    "n is 0": (RuntimeError, lambda: fa.fft.fft(X, 0), "at least 1"),
    "n is negative": (RuntimeError, lambda: fa.fft.rfft(X, -1), "at least 1"),
    "dim": (IndexError, lambda: fa.fft.fft(X, dim=2), "2"),
    "0-d": (IndexError, lambda: fa.fft.fft(fa.tensor(1.0)), "no dims"),
    "empty": (RuntimeError, lambda: fa.fft.fft(X[:0], dim=0), "0 elements"),
    "empty half": (RuntimeError, lambda: fa.fft.irfft(X[:, :0]), "n must"),
    "half of one": (RuntimeError, lambda: fa.fft.irfft(X[:, :1]), "n must"),
    "half of one, n": (RuntimeError, lambda: fa.fft.hfftn(X[:, :1]), "sizes"),
    "repeated": (RuntimeError, lambda: fa.fft.fftn(X, dim=(1, -1)), "repeat"),
    "lengths": (RuntimeError, lambda: fa.fft.fftn(X, (2,), (0, 1)), "same length"),
    "too many": (RuntimeError, lambda: fa.fft.fftn(X, (2, 2, 2)), "3 sizes"),
    "size": (RuntimeError, lambda: fa.fft.fftn(X, (-2, 2)), "-2"),
    "no dims": (RuntimeError, lambda: fa.fft.rfftn(X, dim=()), "at least one dim"),
    "complex": (RuntimeError, lambda: fa.fft.rfft(X + 0j), "real"),
    "norm": (RuntimeError, lambda: fa.fft.fft(X, norm="x"), "ortho"),
    "half": (RuntimeError, lambda: fa.fft.fft(X.half()), "float16"),
    "bfloat16": (RuntimeError, lambda: fa.fft.irfft(X.bfloat16()), "bfloat16"),
    "vector": (IndexError, lambda: fa.fft.fft2(fa.ones(3)), "-2"),
    "frequencies": (RuntimeError, lambda: fa.fft.fftfreq(4, dtype=fa.int64), "int64"),
    "negative": (RuntimeError, lambda: fa.fft.rfftfreq(-1), "negative"),
    "return_complex": (RuntimeError, lambda: fa.stft(fa.ones(40), 16), "return_complex"),
    "too short": (RuntimeError, lambda: stft(100, center=False), "100 of 40"),
    "to reflect": (RuntimeError, lambda: stft(100), "50"),
    "hop": (RuntimeError, lambda: stft(16, 0), "hop_length"),
    "win_length": (RuntimeError, lambda: stft(16, win_length=17), "win_length"),
    "window": (RuntimeError, lambda: stft(16, window=fa.ones(8)), "window"),
    "onesided": (RuntimeError, lambda: fa.stft(fa.ones(40) + 0j, 16, onesided=True), "onesided"),
    "pad_mode": (NotImplementedError, lambda: stft(16, pad_mode="x"), "pad_mode"),
    "align": (RuntimeError, lambda: stft(16, align_to_window=True), "center"),
    "real": (RuntimeError, lambda: fa.istft(fa.ones(9, 11), 16), "complex"),
    "bins": (RuntimeError, lambda: fa.istft(stft(16), 15), "8 frequencies"),
    "overlap": (
        RuntimeError,
        lambda: fa.istft(stft(16), 16, window=fa.zeros(16)),
        "squared windows",
    ),
    "length": (RuntimeError, lambda: fa.istft(stft(16), 16, length=0), "length"),
    "one frame": (RuntimeError, lambda: fa.istft(stft(16)[:, :1], 16), "leave no signal"),
}


def stft(n_fft: int, *args: Any, **options: Any) -> fa.Tensor:
    return fa.stft(fa.ones(40), n_fft, *args, return_complex=True, **options)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    kind, call, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.filterwarnings("ignore:the signal is shorter")
@pytest.mark.parametrize("n", [1 << 62, (1 << 63) - 1, 1 << 40])
def test_sizes_that_no_memory_holds(n: int) -> None:
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        with pytest.raises((RuntimeError, ValueError, MemoryError)):
            getattr(fa.fft, name)(fa.ones(3), n)
    with pytest.raises((RuntimeError, ValueError, MemoryError)):
        fa.fft.fftn(fa.ones(3, 3), (n, n))
    with pytest.raises((RuntimeError, ValueError, MemoryError)):
        fa.stft(fa.ones(9), n, return_complex=True)
    with pytest.raises((RuntimeError, ValueError, MemoryError)):
        fa.istft(fa.ones(3, 4) + 0j, 4, length=n)


def test_out() -> None:
    x = fa.tensor(random(3, 8))
    out = fa.empty(8, 3, dtype=fa.complex128).T
    assert fa.fft.fft(x, out=out) is out
    assert fa.equal(out, fa.fft.fft(x))
    with pytest.raises(RuntimeError):
        fa.fft.fft(x, out=fa.empty(3, 8))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fft", (5,)),
        ("ifft", (3, 0, "ortho")),
        ("rfft", (6,)),
        ("rfft", (3,)),
        ("irfft", (5,)),
        ("irfft", (6, 0)),
        ("hfft", (7,)),
        ("ihfft", (5,)),
        ("rfftn", ((3, 4),)),
        ("irfftn", ((3, 5), (1, 0))),
    ],
)
def test_gradients(name: str, args: tuple[Any, ...]) -> None:
    function = getattr(fa.fft, name)
    x = fa.tensor(
        random(3, 4, dtype="float64" if name[0] == "r" or name[:2] == "ih" else "complex128")
    )
    x.requires_grad_()
    call = functools.partial(lambda x: function(x, *args))
    assert gradcheck(call, (x,), check_forward_ad=True)
    assert gradgradcheck(call, (x,))


@pytest.mark.parametrize("n", [1030, 4096, 131074])
def test_gradients_of_long_lines_are_the_adjoint(n: int) -> None:
    x, g = fa.tensor(random(n, dtype="float64")).requires_grad_(), fa.tensor(random(n // 2 + 1))
    y = fa.fft.rfft(x)
    (y.conj() * g).real.sum().backward()
    half = np.zeros(n, complex)
    half[: n // 2 + 1] = g.numpy()
    assert x.grad is not None
    close(x.grad, np.fft.ifft(half, norm="forward").real, "float64")


@pytest.mark.parametrize(("n_fft", "hop", "n"), [(16, 4, 64), (15, 5, 60), (32, 8, 128)])
def test_stft_and_back(n_fft: int, hop: int, n: int) -> None:
    x = random(2, n, dtype="float64")
    window = scipy.signal.get_window("hann", n_fft)
    s = fa.stft(
        fa.tensor(x), n_fft, hop, window=fa.tensor(window), pad_mode="constant", return_complex=True
    )
    if n_fft % 2 == 0:
        plan = scipy.signal.ShortTimeFFT(window, hop, 1.0, fft_mode="onesided", phase_shift=None)
        want = plan.stft(x, p0=0, p1=s.shape[-1])
        close(s.abs(), np.abs(want), "float64")
    again = fa.istft(s, n_fft, hop, window=fa.tensor(window), length=n)
    np.testing.assert_allclose(again.numpy(), x, atol=1e-12)


def test_istft_fills_up_and_warns() -> None:
    s = fa.stft(fa.arange(40.0), 16, return_complex=True)
    with pytest.warns(UserWarning, match="zeros"):
        y = fa.istft(s, 16, length=60)
    assert y.shape == (60,)
    assert not y[48:].any()


def test_gradients_of_stft() -> None:
    x = fa.tensor(random(2, 12, dtype="float64")).requires_grad_()
    w = fa.tensor(np.hanning(6)[1:5]).requires_grad_()

    def both(x: fa.Tensor, w: fa.Tensor) -> fa.Tensor:
        return fa.stft(x, 4, 2, window=w, return_complex=True)

    assert gradcheck(both, (x, w))
    s = both(x, w).detach().requires_grad_()
    assert gradcheck(lambda s, w: fa.istft(s, 4, 2, window=w), (s, w))


def test_meta_and_method() -> None:
    x = fa.empty(3, 8, device="meta")
    assert fa.fft.rfft2(x).shape == (3, 5)
    assert fa.ones(40).stft(16, return_complex=True).shape == (9, 11)
    assert stft(16).istft(16).shape == (40,)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_same_values_for_any_number_of_threads(threads: int) -> None:
    inputs = [fa.tensor(random(*shape)) for shape in [(300, 50), (1 << 17,), (65537,), (5, 4096)]]
    want = [fa.fft.fft(x) for x in inputs]
    before = fa.get_num_threads()
    fa.set_num_threads(threads)
    try:
        assert all(fa.equal(fa.fft.fft(x), y) for x, y in zip(inputs, want, strict=True))
    finally:
        fa.set_num_threads(before)


def test_keeps_nothing_between_processes_and_threads() -> None:
    run_python(
        """
import os, threading
import facula as fa
x = fa.rand(65537)
y = fa.fft.fft(x)
found = []
threads = [threading.Thread(target=lambda: found.append(fa.fft.fft(x))) for _ in range(3)]
for t in threads: t.start()
pid = os.fork()
if pid == 0: os._exit(0 if fa.equal(fa.fft.fft(x), y) else 1)
for t in threads: t.join()
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert all(fa.equal(f, y) for f in found)
"""
    )

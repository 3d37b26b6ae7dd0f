"""Fourier transforms by NumPy: `ref.NAME` in ops.yaml."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
Ints = Sequence[int] | int | None


def c2c(x: Array, dim: Sequence[int], scale: float, forward: bool) -> Array:
    if forward:
        return np.fft.fftn(x, axes=dim) * scale
    return np.fft.ifftn(x, axes=dim, norm="forward") * scale


def r2c(x: Array, dim: Sequence[int], scale: float, forward: bool, onesided: bool) -> Array:
    y = np.fft.rfftn(x, axes=dim) if onesided else np.fft.fftn(x, axes=dim)
    return (y if forward else y.conj()) * scale


def c2r(x: Array, dim: Sequence[int], last_size: int, scale: float, forward: bool) -> Array:
    sizes = [*(x.shape[d] for d in dim[:-1]), last_size]
    y = np.fft.irfftn(x.conj() if forward else x, sizes, dim, norm="forward")
    return np.asarray(y * scale)


def _dims(x: Array, s: Ints, dim: Ints) -> tuple[list[int] | None, list[int]]:
    if dim is None:
        count = x.ndim if s is None else len(np.atleast_1d(s))
        dims = list(range(x.ndim - count, x.ndim))
    else:
        dims = [int(d) for d in np.atleast_1d(np.asarray(dim, int))]
    if s is None:
        return None, dims
    sizes = [int(n) for n in np.atleast_1d(np.asarray(s, int))]
    return [x.shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)], dims


def fftn(x: Array, s: Ints = None, dim: Ints = None, norm: str | None = None) -> Array:
    return np.fft.fftn(x, *_dims(x, s, dim), norm)


def ifftn(x: Array, s: Ints = None, dim: Ints = None, norm: str | None = None) -> Array:
    return np.fft.ifftn(x, *_dims(x, s, dim), norm)


def rfftn(x: Array, s: Ints = None, dim: Ints = None, norm: str | None = None) -> Array:
    return np.fft.rfftn(x, *_dims(x, s, dim), norm)


def irfftn(x: Array, s: Ints = None, dim: Ints = None, norm: str | None = None) -> Array:
    return np.fft.irfftn(x, *_dims(x, s, dim), norm)


_OTHER = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfftn(x: Array, s: Ints = None, dim: Ints = None, norm: str | None = None) -> Array:
    return np.fft.irfftn(x.conj(), *_dims(x, s, dim), _OTHER[norm])


def ihfftn(x: Array, s: Ints = None, dim: Ints = None, norm: str | None = None) -> Array:
    return np.fft.rfftn(x, *_dims(x, s, dim), _OTHER[norm]).conj()


def fftfreq(n: int, d: float) -> Array:
    return np.fft.fftfreq(n, d) if n else np.zeros(0)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _window(window: Array | None, n_fft: int, width: int) -> Array:
    left = (n_fft - width) // 2
    return np.pad(np.ones(width) if window is None else window, (left, n_fft - width - left))


def stft(
    x: Array,
    n_fft: int,
    hop: int | None,
    width: int | None,
    window: Array | None,
    center: bool,
    mode: str,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align: bool | None,
) -> Array:
    """Frame by frame, by the matrix of the transform."""
    hop = n_fft // 4 if hop is None else hop
    width = n_fft if width is None else width
    real = not (np.iscomplexobj(x) or (window is not None and np.iscomplexobj(window)))
    pads = [(0, 0)] * (x.ndim - 1)
    if center:
        x = np.pad(x, [*pads, (n_fft // 2, n_fft // 2)], mode=_MODES[mode])  # type: ignore[call-overload]
    if align:
        left = (n_fft - width) // 2
        x = np.pad(x, [*pads, (left, n_fft - width - left)])
    k = np.arange(n_fft // 2 + 1 if (real if onesided is None else onesided) else n_fft)
    matrix = np.exp(-2j * np.pi * np.outer(k, np.arange(n_fft)) / n_fft)
    matrix = matrix * _window(window, n_fft, width) / (np.sqrt(n_fft) if normalized else 1)
    starts = range(0, x.shape[-1] - n_fft + 1, hop)
    y = np.stack([x[..., t : t + n_fft] @ matrix.T for t in starts], -1)
    return y if return_complex is not False else np.stack([y.real, y.imag], -1)


def istft(
    x: Array,
    n_fft: int,
    hop: int | None,
    width: int | None,
    window: Array | None,
    center: bool,
    normalized: bool,
    onesided: bool | None,
    length: int | None,
    return_complex: bool,
) -> Array:
    hop = n_fft // 4 if hop is None else hop
    w = _window(window, n_fft, n_fft if width is None else width)
    y = x.swapaxes(-1, -2)
    if return_complex:
        frames = np.fft.ifft(y, n_fft)
    else:
        frames = np.fft.irfft(y[..., : n_fft // 2 + 1], n_fft)
    frames = frames * w * (np.sqrt(n_fft) if normalized else 1)
    count = x.shape[-1]
    total = n_fft + hop * (count - 1)
    signal = np.zeros((*x.shape[:-2], total), frames.dtype)
    envelope = np.zeros(total, w.dtype)
    for t in range(count):
        signal[..., t * hop : t * hop + n_fft] += frames[..., t, :]
        envelope[t * hop : t * hop + n_fft] += w * w
    start = n_fft // 2 if center else 0
    end = total - start if length is None else min(start + length, total)
    y = signal[..., start:end] / envelope[start:end]
    missing = 0 if length is None else length - y.shape[-1]
    return np.pad(y, [(0, 0)] * (y.ndim - 1) + [(0, missing)])

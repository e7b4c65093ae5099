r"""The wavelet scattering transform of pictures, normalised per picture.

With the Morlet wavelets psi_{j, t} of scale 2^j, j = 0, 1, and orientation t, and the Gaussian
window phi of scale 2^J, J = 2, the coefficients of a picture x are

    S0 = x * phi,    S1[j, t] = |x * psi_{j, t}| * phi,
    S2[j, t, j', t'] = ||x * psi_{j, t}| * psi_{j', t'}| * phi,    j < j',

each sampled at every 2^J-th pixel (Bruna and Mallat 2013; Oyallon and Mallat 2015, figure 1). They
are stable under small deformations, and nothing is learned. With 8 orientations there are 1 + 16 +
64 = 81 coefficients per 4 x 4 pixels: 3,969 for 28 x 28.

The coefficients of each picture and order are then standardised to mean 0 and variance 1, so that
S0 does not dominate the others, and the row is divided by its norm. Of the normalisations tried on
a part of the MNIST training pictures (none, by path, by scale, by order), this was best.

The wavelets are

    psi(u) = g(u) (exp(i xi . u) - kappa),    g(u) = slant / (2 pi s^2) exp(-|A_t u|^2 / (2 s^2)),

s = 0.8 2^j, |xi| = 3 pi / 4 / 2^j in the direction t, A_t stretching the direction across it by the
slant 4 / 8, and kappa such that psi has mean 0; phi is g with s = 0.8 2^(J - 1) and slant 1. All
convolutions are on a torus of side ((n + 2^J) // 2^J + 1) 2^J pixels, to which the picture is
extended by reflection; |x * psi_{j, t}| is sampled at every 2^j-th pixel before further processing,
as are the wavelets.

Products of Fourier transforms are folded before the inverse transform, which samples them. The
window is separable, so smoothing by it and sampling are two small matrix products.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Float
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.features.feature_map import FeatureMap, Inputs
from taciturn.typing import Array, HostArray

SCALES, ORIENTATIONS = 2, 8
_WIDTH, _FREQUENCY = 0.8, 3 * np.pi / 4
_SLANT = 4 / ORIENTATIONS
# pictures per batch
_BATCH = 256
_SMALLEST = 8
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Scattering(FeatureMap):
    """Scattering coefficients of pictures, normalised per picture and channel.

    Each channel is transformed separately.

    **Guarantee.** As for `FeatureMap`; rows have norm 1, or less if a channel is all zeros.
    """

    inputs: Inputs
    costly = True
    record_norm = 1.0

    def __post_init__(self) -> None:
        picture = self.inputs.picture
        if picture is None:
            raise InputError(
                "scattering needs pictures, and these records are none; leave it out, or choose "
                "bins or fourier"
            )
        if picture[0] != picture[1] or picture[0] < _SMALLEST:
            raise InputError(
                f"pictures are {picture[0]} x {picture[1]}; scattering needs square ones of at "
                f"least {_SMALLEST} x {_SMALLEST} pixels"
            )

    @property
    def _shape(self) -> tuple[int, int, int]:
        """Side and channels of a picture, and the side of the sampled coefficients."""
        assert self.inputs.picture is not None
        side, _, channels = self.inputs.picture
        return side, channels, side // 2**SCALES

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        turns = range(ORIENTATIONS)
        first = [f"s1_{j}_{t}" for j in range(SCALES) for t in turns]
        second = [f"s2_{j}_{t}_{k}_{v}" for j, k in _pairs() for t in turns for v in turns]
        return ("s0", *first, *second)

    @property
    @override
    def columns(self) -> int:
        _, channels, small = self._shape
        return channels * len(self._paths) * small**2

    @property
    @override
    def names(self) -> tuple[str, ...]:
        _, channels, small = self._shape
        return tuple(
            f"{path}_{channel}_{row}_{column}"
            for channel in range(channels)
            for path in self._paths
            for row in range(small)
            for column in range(small)
        )

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        """Return the features in single precision, some hundred pictures at a time."""
        side, channels, _ = self._shape
        transform, width = coefficients_of(side), self.columns
        features = np.empty((len(rows), width), np.float32)
        for start in range(0, len(rows), _BATCH):
            some = np.asarray(rows[start : start + _BATCH], np.float32)
            # pad to one shape, so that one program is compiled
            pictures = np.zeros((_BATCH, *some.shape[1:]), np.float32)
            pictures[: len(some)] = some
            found = normalised(transform(jnp.asarray(pictures.reshape(-1, side, side))))
            some_rows = np.asarray(found).reshape(_BATCH, width)
            features[start : start + len(some)] = some_rows[: len(some)] / math.sqrt(channels)
        return features


@jax.jit
def normalised(coefficients: Float[Array, "B P m m"]) -> Float[Array, "B P m m"]:
    """Return coefficients with mean 0 and variance 1 in every order, divided by their norm.

    An order without variance, such as that of a picture of zeros, becomes 0.
    """
    first = 1 + SCALES * ORIENTATIONS
    orders = [_standard(coefficients[:, a:b]) for a, b in ((0, 1), (1, first), (first, None))]
    whole = jnp.concatenate(orders, axis=1)
    size = jnp.sqrt(jnp.sum(whole**2, axis=(1, 2, 3), keepdims=True))
    return whole / jnp.where(size > 0, size, 1.0)


def _standard(values: Float[Array, "B P m m"]) -> Float[Array, "B P m m"]:
    away = values - jnp.mean(values, axis=(1, 2, 3), keepdims=True)
    variance = jnp.mean(away**2, axis=(1, 2, 3), keepdims=True)
    # the variance of a constant is rounding error, which counts as 0
    some = variance > (_ROUNDING * jnp.mean(jnp.abs(values), axis=(1, 2, 3), keepdims=True)) ** 2
    return jnp.where(some, away / jnp.sqrt(jnp.where(some, variance, 1.0)), 0.0)


def coefficients_of(side: int) -> Callable[[Array], Array]:
    """Return the compiled function from pictures `(B, n, n)` to coefficients `(B, P, m, m)`."""
    # a multiple of 2^J with a margin of at least half a window on each side
    torus = (side // 2**SCALES + 2) * 2**SCALES
    before = (torus - side) // 2
    around = (before, torus - side - before)
    wavelets = [_spectra(torus, scale) for scale in range(SCALES)]
    windows = [_window(side, torus, scale) for scale in range(SCALES)]
    sampled = {(j, k): _folded(jnp.asarray(wavelets[k]), 2**j) for j, k in _pairs()}

    def smoothed(pictures: Array, scale: int) -> Array:
        window = windows[scale]
        return jnp.einsum("ia,...ab,jb->...ij", window, pictures, window)

    @jax.jit
    def transform(pictures: Float[Array, "B n n"]) -> Float[Array, "B P m m"]:
        padded = jnp.pad(pictures, ((0, 0), around, around), mode="reflect")
        found = [smoothed(padded, 0)[:, None]]
        second = []
        spectrum = jnp.fft.fft2(padded)[:, None]
        for j in range(SCALES):
            first = jnp.abs(jnp.fft.ifft2(_folded(spectrum * wavelets[j], 2**j)))
            found.append(smoothed(first, j))
            for k in (coarse for fine, coarse in _pairs() if fine == j):
                inner = jnp.fft.fft2(first)[:, :, None] * sampled[j, k]
                again = jnp.abs(jnp.fft.ifft2(_folded(inner, 2 ** (k - j))))
                pairs = smoothed(again, k)
                second.append(pairs.reshape(len(pictures), -1, *pairs.shape[-2:]))
        return jnp.concatenate([*found, *second], axis=1)

    return transform


def _pairs() -> tuple[tuple[int, int], ...]:
    """Return the scales j < j' of second-order coefficients."""
    return tuple(itertools.combinations(range(SCALES), 2))


def _folded(spectrum: Array, times: int) -> Array:
    """Return the Fourier transform of every `times`-th pixel, from the full transform."""
    *some, rows, columns = spectrum.shape
    parts = spectrum.reshape(*some, times, rows // times, times, columns // times)
    return parts.mean(axis=(-4, -2))


def _spectra(torus: int, scale: int) -> Complex[HostArray, "L M M"]:
    """Return the Fourier transforms of the wavelets of one scale, in all orientations."""
    width, frequency = _WIDTH * 2**scale, _FREQUENCY / 2**scale
    spectra = []
    for turn in range(ORIENTATIONS):
        angle = (ORIENTATIONS // 2 - 1 - turn) * np.pi / ORIENTATIONS
        wave, envelope = (_gabor(torus, width, angle, xi) for xi in (frequency, 0.0))
        spectra.append(np.fft.fft2(wave - wave.sum() / envelope.sum() * envelope))
    return np.stack(spectra).astype(np.complex64)


def _gabor(torus: int, width: float, angle: float, frequency: float) -> Complex[HostArray, "M M"]:
    """Return g(u) exp(i xi . u), summed over the non-negligible periods of the torus."""
    along = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-np.sin(angle), np.cos(angle)])
    pixels = np.arange(-2 * torus, 3 * torus)
    u = np.stack(np.meshgrid(pixels, pixels, indexing="ij"), axis=-1)
    exponent = -((u @ along) ** 2 + (_SLANT * (u @ across)) ** 2) / (2 * width**2)
    values = np.exp(exponent + 1j * frequency * (u @ along))
    periodic = values.reshape(5, torus, 5, torus).sum(axis=(0, 2))
    gabor: HostArray = periodic * _SLANT / (2 * np.pi * width**2)
    return gabor


def _window(side: int, torus: int, scale: int) -> Float[HostArray, "m M"]:
    """Return the matrix that smooths one axis by phi and takes every 2^(J - scale)-th pixel.

    The axis has every 2^scale-th pixel of the torus; the result is over the picture alone.
    """
    width, pixels = _WIDTH * 2 ** (SCALES - 1 - scale), torus // 2**scale
    places = np.arange(-2 * pixels, 3 * pixels)
    window = np.exp(-(places**2) / (2 * width**2)) / (np.sqrt(2 * np.pi) * width)
    periodic = window.reshape(5, pixels).sum(axis=0)
    first = (torus - side) // 2 // 2**SCALES
    kept = np.arange(first, first + side // 2**SCALES) * 2 ** (SCALES - scale)
    return np.stack([np.roll(periodic, place) for place in kept]).astype(np.float32)

"""Scattering against direct convolution, written without Fourier transforms."""

import functools
import math

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.features import Inputs, feature_map_named
from taciturn.features.scattering import ORIENTATIONS, SCALES, Scattering, coefficients_of


def names_of(count):
    return tuple(f"p{k}" for k in range(count))


def pictures_of(side, channels=1):
    size = side * side * channels
    return Inputs(names_of(size), 1.0, picture=(side, side, channels))


def gaussian_wave(torus, spread, angle, frequency, slant):
    """One value at a time, over the torus and its neighbours."""
    values = np.zeros((torus, torus), complex)
    for row in range(-2 * torus, 3 * torus):
        for column in range(-2 * torus, 3 * torus):
            along = row * math.cos(angle) + column * math.sin(angle)
            across = -row * math.sin(angle) + column * math.cos(angle)
            size = math.exp(-(along**2 + (slant * across) ** 2) / (2 * spread**2))
            values[row % torus, column % torus] += size * complex(
                math.cos(frequency * along), math.sin(frequency * along)
            )
    return values * slant / (2 * math.pi * spread**2)


@functools.cache
def wavelet(torus, j, t):
    angle = (ORIENTATIONS // 2 - 1 - t) * math.pi / ORIENTATIONS
    shape = 0.8 * 2**j, angle
    wave = gaussian_wave(torus, *shape, 3 * math.pi / 4 / 2**j, 4 / ORIENTATIONS)
    envelope = gaussian_wave(torus, *shape, 0.0, 4 / ORIENTATIONS)
    return wave - envelope * wave.sum() / envelope.sum()


def convolved(picture, kernel):
    """The sum over shifts of the picture, on the torus."""
    total = np.zeros(picture.shape, complex)
    for row in range(len(picture)):
        for column in range(len(picture)):
            total += kernel[row, column] * np.roll(picture, (row, column), (0, 1))
    return total


def directly(picture):
    """The coefficients of one picture of 8 x 8 pixels, on a torus of 16 x 16."""
    side, torus = 8, 16
    padded = np.pad(picture, 4, mode="reflect")
    assert padded.shape == (torus, torus)

    def smoothed(values, scale):
        window = gaussian_wave(torus, 0.8 * 2 ** (SCALES - 1), 0.0, 0.0, 1.0).real
        kernel = window[:: 2**scale, :: 2**scale] * 4**scale
        every = 2 ** (SCALES - scale)
        whole = convolved(values, kernel).real[::every, ::every]
        return whole[1 : 1 + side // 4, 1 : 1 + side // 4]

    first, second = [], []
    for j in range(SCALES):
        for t in range(ORIENTATIONS):
            inner = np.abs(convolved(padded, wavelet(torus, j, t)))[:: 2**j, :: 2**j]
            first.append(smoothed(inner, j))
            for k in range(j + 1, SCALES):
                for v in range(ORIENTATIONS):
                    kernel = wavelet(torus, k, v)[:: 2**j, :: 2**j] * 4**j
                    outer = np.abs(convolved(inner, kernel))[:: 2 ** (k - j), :: 2 ** (k - j)]
                    second.append(smoothed(outer, k))
    return np.stack([smoothed(padded, 0), *first, *second])


def test_coefficients_are_those_of_direct_convolution():
    picture = np.random.default_rng(3).random((8, 8))
    found = np.asarray(coefficients_of(8)(picture[None].astype(np.float32)))[0]
    truth = directly(picture)
    assert found.shape == truth.shape == (1 + 16 + 64, 2, 2)
    np.testing.assert_allclose(found, truth, atol=3e-6)
    assert np.abs(truth).min() > 1e-4  # every coefficient is looked at


def test_every_order_of_a_picture_has_mean_zero_and_the_same_variance():
    rows = np.random.default_rng(4).random((5, 28 * 28)) * np.array([1, 1e-3, 1e3, 1, 1])[:, None]
    found = Scattering(pictures_of(28)).apply(rows).reshape(5, 81, -1).astype(float)
    for order in (found[:, :1], found[:, 1:17], found[:, 17:]):
        np.testing.assert_allclose(order.mean(axis=(1, 2)), 0, atol=1e-6)
        np.testing.assert_allclose(order.var(axis=(1, 2)), 1 / 3969, rtol=1e-3)


@pytest.mark.parametrize(("side", "channels", "columns"), [(28, 1, 3969), (8, 3, 972)])
def test_features_have_their_names_and_norm_one(side, channels, columns):
    scattering = Scattering(pictures_of(side, channels))
    rows = np.random.default_rng(0).random((300, side * side * channels))
    rows[7] = 0
    found = scattering.apply(rows)
    assert found.dtype == np.float32
    assert found.shape == (300, columns) == (300, len(set(scattering.names)))
    assert scattering.columns == columns
    norms = np.linalg.norm(found.astype(float), axis=1)
    np.testing.assert_allclose(np.delete(norms, 7), scattering.record_norm, rtol=1e-5)
    assert norms[7] == 0


def test_features_of_a_picture_do_not_depend_on_the_others():
    scattering = Scattering(pictures_of(8))
    rows = np.random.default_rng(1).random((260, 64))
    together = scattering.apply(rows)
    np.testing.assert_array_equal(scattering.apply(rows[255:]), together[255:])


def test_channels_are_transformed_by_themselves():
    draw = np.random.default_rng(2)
    one, other = draw.random((2, 64))
    both = Scattering(pictures_of(8, 2)).apply(np.concatenate([one, other])[None])[0]
    alone = Scattering(pictures_of(8)).apply(np.stack([one, other]))
    for part, single in zip(np.split(both, 2), alone, strict=True):
        np.testing.assert_allclose(part * math.sqrt(2), single, atol=1e-6)


def test_what_is_no_square_picture_is_refused():
    with pytest.raises(InputError, match="pictures"):
        feature_map_named("scattering", Inputs(names_of(64), 1.0))
    with pytest.raises(InputError, match="square"):
        feature_map_named("scattering", Inputs(names_of(96), 1.0, picture=(8, 12, 1)))

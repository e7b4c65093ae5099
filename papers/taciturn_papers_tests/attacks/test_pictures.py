"""Records from gradients: closed forms against gradients made elsewhere, and the whole gallery."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.cli import main
from taciturn.datasets import load
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient, Point
from taciturn.problems import MultinomialLogistic
from taciturn_papers.attacks import (
    Seen,
    class_sums,
    closeness,
    labels_shown,
    outside,
    rank_one,
    span,
)  # fmt: skip
from taciturn_papers.reproductions.wang2024 import pictures as builder

CLASSES, FEATURES = 5, 12


def slope(w, x, y):
    """The gradient of the mean negative log likelihood, by complex steps on the value itself."""
    answer = np.zeros(w.shape)
    for place in np.ndindex(w.shape):
        margins = x @ (w + 1e-30j * (np.indices(w.shape) == np.reshape(place, (2, 1, 1))).all(0))
        values = np.log(np.exp(margins).sum(axis=1)) - margins[np.arange(len(y)), y]
        answer[place] = values.mean().imag / 1e-30
    return answer


def seen(records, scales=(0, 1), *, labels=None, noise=0.0, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.random((records, FEATURES)) * (draw.random((records, FEATURES)) < 0.7)
    x[:, -1] = 0.5  # an intercept
    y = draw.integers(0, CLASSES, records) if labels is None else np.array(labels)
    points = np.stack([q * draw.standard_normal((FEATURES, CLASSES)) for q in scales])
    answers = np.stack([slope(w, x, y) for w in points])
    answers += noise * draw.standard_normal(answers.shape)
    return Seen(points, answers, records, 10.0), x, y


@pytest.mark.parametrize("seed", range(3))
def test_one_record_is_read_off_exactly_with_its_class_and_by_the_intercept_its_scale(seed):
    found, (x,), (y,) = seen(1, seed=seed)
    read = rank_one(found, constant=(FEATURES - 1, 0.5))
    np.testing.assert_allclose(read.record, x, atol=1e-12)
    assert read.label == y
    assert read.leftover < 1e-6
    assert closeness(rank_one(found).record, x).error < 1e-12
    noisy = rank_one(seen(1, noise=0.3, seed=seed)[0])
    assert noisy.leftover > 0.1


def test_the_span_of_several_records_shows_as_far_as_the_answers_have_rank():
    found, x, _ = seen(6, (1, 1))
    assert max(outside(span(found), record) for record in x) < 1e-9
    one, x, _ = seen(6, (1,))  # K - 1 = 4 dimensions of 6
    assert span(one).shape[1] == CLASSES - 1
    assert max(outside(span(one), record) for record in x) > 0.05


def test_at_zero_a_record_alone_in_its_class_and_the_sums_of_the_others_are_exact():
    found, x, y = seen(5, labels=[0, 2, 2, 3, 2])
    truth = np.stack([x[y == k].sum(axis=0) for k in range(CLASSES)])
    np.testing.assert_allclose(class_sums(found), truth, atol=1e-12)
    assert set(labels_shown(found)) == {0, 2, 3}
    crowded, x, y = seen(5, labels=[0, 1, 2, 3, 4])  # no class is absent: only up to their minimum
    np.testing.assert_allclose(class_sums(crowded), x - x.min(axis=0), atol=1e-12)
    with pytest.raises(InputError, match="not asked at 0"):
        class_sums(Seen(found.points[1:], found.answers[1:], 5, 10.0))


def test_what_does_not_fit_is_refused():
    found, _, _ = seen(2)
    with pytest.raises(InputError, match="2 records"):
        rank_one(found)
    with pytest.raises(InputError, match="not finite"):
        Seen(found.points, found.answers * np.nan, 2, 1.0)


@pytest.fixture(scope="module")
def scene():
    return builder.scene(load("digits", interval="unit"), records=1, seed=0)


def exact(scene, known, agent):
    oracle, shard = Gradient(MultinomialLogistic(10), math.inf), scene.shards.shard(agent)
    return np.stack(
        [oracle.exact(shard, jnp.ones(()), Point(jnp.asarray(w))) for w in known.points]
    )


def test_published_links_give_exact_gradients_and_sound_links_the_noised_answers(scene):
    links = builder.as_published(scene, epsilon=1.0, seed=0)
    known = scene.seen(links, 3)
    np.testing.assert_allclose(known.answers, exact(scene, known, 3), atol=1e-11)
    # sigma = sqrt(PLF) Delta / mu with Delta = 2 R sqrt(2): noise of that size is all there is
    links, mu = builder.sound(scene, epsilon=8.0, seed=0)
    noise = np.concatenate([
        (scene.seen(links, agent).answers - exact(scene, scene.seen(links, agent), agent)).ravel()
        for agent in range(builder.AGENTS)
    ])  # fmt: skip
    sigma = math.sqrt(builder.VISITS) * 2 * math.sqrt(2) / mu
    assert abs(noise.std() / sigma - 1) < 5 / math.sqrt(2 * noise.size)
    assert abs(noise.mean()) < 5 * sigma / math.sqrt(noise.size)


@pytest.fixture(scope="module")
def gallery():
    patch = pytest.MonkeyPatch()
    quick = builder.Effort(pictures=1, counts=(1,), steps=300, newton_steps=60, restarts=1)
    with patch.context() as context:
        context.setattr(builder, "QUICK", quick)
        return builder.images(load("digits", interval="unit"), seed=0, quick=True)


def test_pictures_come_back_from_published_links_and_not_from_sound_ones(gallery):
    *methods, counts = gallery.blocks
    assert len(methods) == 4
    for block in methods:
        ((_, (original, open_, published, weak, *private)),) = block.rows
        assert original.error is None
        assert max(open_.error, published.error) < 0.02
        assert published.error < weak.error < min(p.error for p in private)
        assert min(p.error for p in private) > 0.5
    assert all(row[1].error < 0.02 for _, row in counts.rows)


def test_the_command_names_the_data_it_takes(capsys):
    assert main(["attack", "adult"]) == 2
    assert "mnist, fashion_mnist" in capsys.readouterr().err
    with pytest.raises(InputError, match="square pictures"):
        builder.images(load("breast_cancer", interval="unit"), seed=0, quick=True)


def test_pictures_in_colour_are_shown_pixel_by_pixel():
    record = np.arange(12.0)  # red, green and blue of 2 x 2 pixels, one after the other
    shown = builder._square(record)
    assert shown.shape == (2, 2, 3)
    np.testing.assert_array_equal(shown[0, 1], [1, 5, 9])
    assert builder._square(np.arange(4.0)).shape == (2, 2)
    assert builder._layout(13) == (0, 0)


def test_the_cats_and_dogs_have_their_two_of_ten_classes():
    pair = load("breast_cancer", interval="unit")
    pets = builder._of_ten(pair)
    assert (pets.classes, pets.task) == (10, "multiclass")
    np.testing.assert_array_equal(pets.targets, np.where(pair.targets < 0, 3, 5))

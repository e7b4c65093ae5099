"""Queries of the right form and of others; run alone, where nobody checks annotations."""

import json

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.errors import InputError
from taciturn.kernel.door.opening import prepared
from taciturn.kernel.privacy import Gaussian
from taciturn.kernel.questions import (
    Around,
    AtStep,
    Centre,
    CentredGradient,
    ClippedErrors,
    Gradient,
    MinibatchDifference,
    Pair,
    PerturbedStep,
    Point,
    ProjectedStep,
    ProximalStep,
    Recentred,
    Step,
    Tally,
)
from taciturn.kernel.records import pack
from taciturn.problems import (
    L2,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    WholeSpace,
)

D, M, K = 3, 12, 3
LOSS, CLASSES = Logistic(), MultinomialLogistic(K)
SMOOTH = Problem(LOSS, L2(0.1), WholeSpace())
PROXIMAL = ProximalStep(SMOOTH, 1.0, 0.5, 1.0)
ONE, NUMBER = jnp.zeros(D), jnp.ones(())
GRADIENT, POINT = Gradient(LOSS, 1.0), Point(ONE)
PROJECTED = ProjectedStep(Problem(LOSS, NoRegulariser(), Simplex(1.0)), 1.0)
DIFFERENCE = Gradient(LOSS, 1.0, spread=2.0**-10)
CENTRED, RECENTRED = CentredGradient(GRADIENT, 1.0, 0.3), Recentred(GRADIENT, 1.0, 0.3)

RIGHT = [
    (GRADIENT, POINT),
    (GRADIENT, Pair(ONE, ONE)),
    (DIFFERENCE, Pair(ONE, ONE)),
    (Gradient(CLASSES, 1.0), Point(jnp.zeros((D, K)))),
    (PROJECTED, Step(ONE, ONE, NUMBER, NUMBER)),
    (PROXIMAL, Centre(ONE)),
    (PerturbedStep(PROXIMAL), Centre(ONE)),
    (CENTRED, Around(POINT, ONE)),
    (RECENTRED, Around(POINT, ONE)),
    (Tally(2), POINT),
    (Tally(K), Point(jnp.zeros((D, K)))),
    (ClippedErrors(), POINT),
]
WRONG = [
    (MinibatchDifference(LOSS, 1.0, 0.5, spread=0.5), POINT),
    (DIFFERENCE, POINT),  # without an anchor nothing would cut it to the spread
    (DIFFERENCE, Pair(ONE, jnp.zeros((D, M)))),
    (PROJECTED, Step(ONE, ONE, jnp.ones(D), NUMBER)),  # a curvature for each entry expands
    (PROJECTED, Step(ONE, ONE, NUMBER, jnp.ones(D))),
    (PROJECTED, Step(ONE, NUMBER, NUMBER, NUMBER)),
    (Tally(2), Point(jnp.zeros((D, M)))),  # a model for each record counts each M times
    (Tally(K), POINT),
    (ClippedErrors(), Point(jnp.zeros((D, M)))),
    (Gradient(CLASSES, 1.0), Point(jnp.zeros((D, M)))),  # a softmax over records
    (GRADIENT, Point(jnp.zeros((D, 1)))),
    (GRADIENT, Point(jnp.zeros(D, jnp.int32))),
    (GRADIENT, Point(POINT)),
    (GRADIENT, Centre(ONE)),
    (GRADIENT, ONE),
    (GRADIENT, None),
    (GRADIENT, AtStep(jnp.zeros((), jnp.int32))),
    (PROXIMAL, POINT),
    (PROXIMAL, Centre(jnp.zeros((D, 2)))),
    (CENTRED, Around(POINT, jnp.zeros((D, M)))),
    (CENTRED, Around(Point(jnp.zeros((D, M))), ONE)),
    (CENTRED, POINT),
    (RECENTRED, Around(Centre(ONE), ONE)),
    (RECENTRED, Around(POINT, jnp.zeros(()))),
]


def said(question, query, shard, count):
    """What comes of it: the line of an `InputError`, or nothing."""
    try:
        jax.eval_shape(lambda: question.exact(shard, count, query))
    except InputError as error:
        return str(error)
    return ""


def main():
    found = {}
    for name, pairs in (("right", RIGHT), ("wrong", WRONG)):
        found[name] = []
        for question, query in pairs:
            targets = np.zeros(M, np.int64) if "Multi" in repr(question) else np.ones(M)
            shards = pack(
                np.eye(M, D), targets, [np.arange(M)], record_norm=1.0, precision="float64",
                enforce="clip",
            )  # fmt: skip
            private = prepared((question,), Gaussian(), shards)
            shard, count = jax.tree.map(lambda leaf: leaf[0], private)
            found[name].append([repr(query), said(question, query, shard, count)])
    print(json.dumps(found))


if __name__ == "__main__":
    main()

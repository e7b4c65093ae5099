"""Annotations are checked in the quick suite, and none that names a shape is skipped in silence."""

import ast
import importlib
import sys
from pathlib import Path

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import taciturn
import taciturn_federation
import taciturn_papers
import taciturn_power
from taciturn.problems import L2
from taciturn.typing import Array, HostArray

PACKAGES = (taciturn, taciturn_federation, taciturn_power, taciturn_papers)
FILES = [path for package in PACKAGES for path in sorted(Path(package.__path__[0]).rglob("*.py"))]
SHAPED = ("Bool", "Float", "Int", "Num", "Shaped")
NAMES = {**vars(jaxtyping), "Array": Array, "HostArray": HostArray, "np": np}
FALSE = """
from __future__ import annotations
from dataclasses import dataclass
from jaxtyping import Float
from taciturn.typing import HostArray

def halves(x: Float[HostArray, "n"]) -> Float[HostArray, "n"]:
    return x[::2]

@dataclass
class Pair:
    left: Float[HostArray, "n"]
    right: Float[HostArray, "n"]
"""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_false_shape_in_any_module_raises(package, tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text(FALSE)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    name = f"{package.__name__}.planted"
    planted = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(package, "planted")
    one, two = np.ones(1), np.ones(2)
    assert planted.halves(one) == one
    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        planted.halves(two)
    with pytest.raises(jaxtyping.TypeCheckError, match="right"):
        planted.Pair(one, two)


def test_a_public_function_refuses_a_shape_and_a_type_that_it_does_not_declare():
    with pytest.raises(jaxtyping.TypeCheckError, match="step"):
        L2(1.0).prox(jnp.ones(3), jnp.ones(3))
    with pytest.raises(jaxtyping.TypeCheckError, match="dimension"):
        L2(1.0).gradient_bound("three")
    assert L2(1).weight == 1


@pytest.mark.unchecked
def test_a_test_may_call_as_one_who_has_no_checker():
    assert L2(0.0).gradient_bound("three") == 0


def test_checks_are_on_again_after_that():
    with pytest.raises(jaxtyping.TypeCheckError):
        L2(0.0).gradient_bound("three")


def is_shape(node):
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in SHAPED
    )


def unreadable(tree):
    """Shapes that cannot be read: the hook would put Any in their place."""
    bad = []
    for node in ast.walk(tree):
        if is_shape(node):
            try:
                eval(ast.unparse(node), dict(NAMES))
            except Exception as error:
                bad.append(f"line {node.lineno}: {ast.unparse(node)} ({error})")
    return bad


def test_no_shape_is_skipped_because_it_cannot_be_read():
    assert len(FILES) > 100
    bad = {str(path): unreadable(ast.parse(path.read_text())) for path in FILES}
    assert {path: found for path, found in bad.items() if found} == {}


def test_shapes_that_would_be_skipped_are_found():
    assert unreadable(ast.parse('x: Float[Array, "*a *b"]')) != []
    assert unreadable(ast.parse('x: Float[Array, "a *b"]')) == []

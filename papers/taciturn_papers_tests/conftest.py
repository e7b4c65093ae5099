"""What the tests of the papers share: the command line, and claims that are decided once."""

import fcntl
import json
import os
import pickle
from typing import NamedTuple

import jax
import pytest

from taciturn.cli import main
from taciturn_papers.claims import claims_named


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes minutes")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out, parse_constant=pytest.fail)


@pytest.fixture
def taciturn_(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(taciturn_):
    """Run, and require: exit code 2, nothing on stdout, one line on stderr; return the line."""

    def call(*arguments):
        done = taciturn_(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("taciturn: error: ")
        assert done.err.count("\n") == 1
        return done.err

    return call


@pytest.fixture(scope="session")
def decided(tmp_path_factory):
    """From a claim's name to its finding, computed once a session whatever the number of workers.

    Workers share a folder: the first to ask for a claim decides it under a lock, the others read.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def finding(name):
        kept = folder / f"{name.replace('/', '-')}.pickle"
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_bytes(pickle.dumps(claims_named(name)[0].decide()))
            return pickle.loads(kept.read_bytes())

    return finding


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Compiled programs of one file are of no use to the next, and add up to gigabytes."""
    yield
    jax.clear_caches()

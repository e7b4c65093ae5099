"""Calls of the packages in tests and doctests are checked against their annotations.

All of them in the quick suite. A slow test is checked only where its file has no quick one: the
others call, for longer, mostly what the quick tests of their file call checked.
"""

import jaxtyping
import pytest

# they import an engine, in whose environment there is no taciturn
collect_ignore = [
    f"federation/src/taciturn_federation/engines/{name}.py" for name in ("flower", "flare")
]
# as for mypy, a whole number will do where a float is expected
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"

jaxtyping.install_import_hook(
    ["taciturn", "taciturn_federation", "taciturn_power", "taciturn_papers"], CHECKER
)


def pytest_configure(config):
    """Register the marker that switches the checks off for one test."""
    config.addinivalue_line(
        "markers",
        "unchecked: annotations are not checked, since the test gives a wrong type or shape on "
        "purpose and expects the package's own error, or measures time",
    )
    # which entry of a sequence the checker looks at is drawn from `random`
    config.addinivalue_line("filterwarnings", "ignore:Do not use the `random` module inside")


def pytest_collection_modifyitems(items):
    """Leave the slow tests of a file that has quick ones unchecked: they take half the time."""
    slow = {item for item in items if item.get_closest_marker("slow") is not None}
    of_quick_files = {item.path for item in items if item not in slow}
    for item in slow:
        if item.path in of_quick_files:
            item.add_marker(pytest.mark.unchecked)


@pytest.fixture(autouse=True)
def _annotations_are_checked(request):
    unchecked = request.node.get_closest_marker("unchecked") is not None
    jaxtyping.config.update("jaxtyping_disable", unchecked)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)

"""Documents with one fault: a value deleted, doubled, retyped or replaced somewhere."""

import copy
import json

HUGE = "1e400, which json cannot write"
NOT_A_NUMBER = float("nan")
WRONG = (
    None, NOT_A_NUMBER, float("inf"), -1, 0, 1, 2, 1.5, 10**9, 10**30, 10**400, 1e-320, 1e300, -0.0,
    True, "", "infinity", "none", "x" * 10_000, "\x00", "\ud800", "é", [], {}, [[]], [None],
    {"name": 1}, [1, 2], [-1, 3], [[0, 1]], [[0, 0]], [[0, 99]], ["a"], HUGE,
)  # fmt: skip


def places(value, path=()):
    """Return the path of every value in a document, containers included."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    return [path, *(place for key, one in inside for place in places(one, (*path, key)))]


def mutated(text, draw):
    """Return the JSON of a document with one fault, drawn at random; draw is a random.Random."""
    values = json.loads(text)
    *way, last = draw.choice(places(values)[1:])
    node = values
    for key in way:
        node = node[key]
    doubled = None
    match draw.choice(["delete", "double", "add", "wrong", "wrong", "wrong", "wrong", "other"]):
        case "delete":
            del node[last]
        case "double" if isinstance(node, dict):
            doubled = last
            node[last] = {"doubled": node[last]}
        case "add" if isinstance(node, dict):
            node["surplus"] = draw.choice(WRONG)
        case "other":
            origin = draw.choice(places(json.loads(text)))
            other = json.loads(text)
            for key in origin:
                other = other[key]
            node[last] = copy.deepcopy(other)
        case _:
            node[last] = draw.choice(WRONG)
    written = json.dumps(values).replace(json.dumps(HUGE), "1e400")
    if doubled is not None:
        before = f'{json.dumps(doubled)}: {{"doubled": '
        kept = json.dumps(node[last]["doubled"])
        one = f"{json.dumps(doubled)}: {kept}"
        written = written.replace(f"{before}{kept}}}", f"{one}, {one}")
    return written

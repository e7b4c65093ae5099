"""A study of a few owners, with files of generated records."""

import csv
from dataclasses import dataclass

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.kernel.records import Draw
from taciturn.regression import regression_request
from taciturn.tables import Source, load_table
from taciturn.training import NetworkRequest, Request, StructureRequest, divide, proposal_for
from taciturn_federation.agreement import Member, Participant, sign
from taciturn_federation.keys import Nkey, certify_nkey, public_text

BOUNDS = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
x0 = { min = -4.0, max = 4.0 }
x1 = { min = -4.0, max = 4.0 }
x2 = { min = -4.0, max = 4.0 }
town = { values = ["a", "b"] }
"""
ACCOUNT_TERMS = {"relation": "replace_one", "unit": "record"}
RING, PATH = {"network": "ring"}, {"network": "path"}
NAMES = (
    "mercy",
    "sinai",
    "charite",
    "lariboisiere",
    "guys",
    "karolinska",
    "clinic7",
    "clinic8",
    "clinic9",
    "clinic10",
)


def kinds(*quick, slow=()):
    """A parametrisation by studies of the conftest, of which some are in the slow suite."""
    marked = [pytest.param(kind, marks=pytest.mark.slow) for kind in slow]
    return pytest.mark.parametrize("study", [*quick, *marked], indirect=True)


def key_of(number):
    """A signing key that is the same in every run of a test."""
    return Ed25519PrivateKey.from_private_bytes(bytes([number + 1]) * 32)


def write_records(file, rows, *, seed, persons=False):
    """A file of records; no two numbers in it are equal. Persons have one or two rows each."""
    draw = np.random.default_rng(seed)
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["x0", "x1", "x2", "town", "ill", *(["who"] if persons else [])])
        for row in range(rows):
            x = draw.standard_normal(3)
            ill = "yes" if x[0] + 0.5 * draw.standard_normal() > 0 else "no"
            cells = [*(f"{v:.12f}" for v in x), "ab"[int(draw.integers(2))], ill]
            writer.writerow([*cells, *([f"{seed}-{2 * row // 3}"] if persons else [])])


@dataclass(eq=False)
class Study:
    """Files, the division of all of them, and the signed proposal."""

    folder: object
    files: tuple
    data: object
    signed: object
    keys: tuple
    coordinator: Ed25519PrivateKey
    person_column: str | None = None

    def source(self, agent, path=None):
        """The file of an owner, as a site reads it."""
        file = path or self.files[agent]
        return Source(path=file, target="ill", bounds=None, person_column=self.person_column)

    @property
    def agents(self):
        return len(self.files)

    def key(self, sender):
        """The signing key of an agent, or of the coordinator."""
        return self.keys[sender] if sender < self.agents else self.coordinator

    def spoil_cell(self, agent=-1):
        """Put a cell that is no number into the last row of a file."""
        text = self.files[agent].read_text()
        row = "1.0,spoilt-cell,0.5,a,no\n"
        self.files[agent].write_text(text[: text.rindex("\n", 0, -1) + 1] + row)


def member(name, key, study="diabetes"):
    """What a proposal says of a party; its nkey follows from the signing key."""
    secret = bytes(255 - byte for byte in key.private_bytes_raw())
    nkey = Nkey(Ed25519PrivateKey.from_private_bytes(secret)).public
    certified = certify_nkey(key, study, name, nkey)
    return {
        "name": name, "key": public_text(key.public_key()), "nkey": nkey, "certified": certified
    }  # fmt: skip


def make_study(folder, *, agents=3, rows=20, patience=30.0, start_patience=None, release=False,
               quorum=None, regressed=None, **asked):  # fmt: skip
    """A study: by default noisy-gradient in float64 on a star; or a regression."""
    persons = asked.get("rows_per_person")
    who = None if persons is None else "who"
    place = folder / "records"
    place.mkdir(parents=True, exist_ok=True)
    files = tuple(place / f"{number}.csv" for number in range(agents))
    for number, file in enumerate(files):
        write_records(file, rows + 3 * number, seed=number, persons=persons is not None)
    bounds = folder / "bounds.toml"
    bounds.write_text(BOUNDS)
    table = load_table(Source(path=place, target="ill", bounds=bounds, person_column=who))
    network, features = asked.pop("network", None), asked.pop("features", None)
    structure = asked.pop("structure", None) or StructureRequest()
    settings = {"epsilon": 1.0, "delta": 1e-3, "rounds": 6, "precision": "float64"} | asked
    if network is not None:
        settings["network"] = NetworkRequest(**network)
    request = Request(**settings)
    if regressed is not None:
        request = regression_request(request, table.bounds, regressed)
        features = request.features
    data = divide(
        table,
        None,
        split_seed=request.split_seed,
        draw=Draw(seed=request.split_seed),
        features=features,
        evaluate=request.evaluate,
        rows_per_person=request.rows_per_person,
    )
    proposal = proposal_for(data, request, structure)
    keys, coordinator = tuple(map(key_of, range(agents))), key_of(99)
    members = [
        Participant(**member(name, key), count=count)
        for name, key, count in zip(NAMES, keys, proposal.all_counts, strict=False)
    ]
    signed = sign(
        "diabetes",
        proposal,
        members,
        coordinator=Member(**member("registry", coordinator)),
        key=coordinator,
        nonce="00" * 16,
        patience=patience,
        start_patience=start_patience,
        release_abandoned=release,
        quorum=quorum,
    )
    return Study(folder, files, data, signed, keys, coordinator, who)

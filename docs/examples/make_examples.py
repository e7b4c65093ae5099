"""Make the example tables of docs/how-to/examples.md: invented records, the same on every machine.

`python docs/examples/make_examples.py` writes them beside this file.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

HERE = Path(__file__).parent


def visit(draw: random.Random, number: int) -> tuple[str, str]:
    """Return one visit to a surgery, with and without its target, as two lines."""
    born = date(1935, 1, 1) + timedelta(days=draw.randrange(25_000))
    smoker, sex = draw.random() < 0.35, draw.choice(["f", "m"])
    pressure = round(draw.gauss(95 + 0.6 * (2023 - born.year), 12))
    weight = draw.gauss(72, 12) + (10 if sex == "m" else 0)
    score = 0.06 * (1968 - born.year) + 0.05 * (pressure - 125) + 2 * smoker
    ill = score + draw.gauss(0, 1) > 0.5
    cells = [
        str(10_000 + number),
        f"{born:%d.%m.%Y}",
        draw.choice([sex, sex.upper()]),
        draw.choice(["yes", "Yes", "YES"] if smoker else ["no", "No", "no"]),
        str(pressure),
        f"{weight:.1f}".replace(".", ","),
    ]
    if draw.random() < 0.12:
        cells[4] = draw.choice(["", "NA", "n.m."])  # not measured
    if draw.random() < 0.05:
        cells[3] = ""
    answer = draw.choice(["yes", "Yes"] if ill else ["no", "No"])
    return ";".join([*cells, answer]), ";".join(cells)


def claim(draw: random.Random, number: int) -> tuple[str, str]:
    """Return one insurance claim, with and without its target, as two lines."""
    day = date(2022, 1, 1) + timedelta(days=draw.randrange(730))
    value = round(draw.lognormvariate(9.7, 0.5) / 10) * 10
    age, region = draw.randint(18, 85), draw.choice(["North", "South", "East", "West"])
    rate = 0.05 if region == "North" else 0.03
    cost = value * rate * (1.6 if age < 30 else 1.0) * draw.lognormvariate(0, 0.5)
    cells = [f"C{number:05}", f"{day:%d/%m/%Y}", f'"{value:,}"', str(age), region]
    return ",".join([*cells, f'"{cost:,.2f}"']), ",".join(cells)


def files() -> dict[str, str]:
    """Return the content of every example table by the name of its file."""
    visits, claims = random.Random(1), random.Random(2)
    seen = [visit(visits, number) for number in range(1705)]
    made = [claim(claims, number) for number in range(1405)]
    of_visits, of_claims = (
        "number;born;sex;smoker;pressure;weight",
        "claim,accident,value,age,region",
    )
    parts = {
        "visits.csv": [f"{of_visits};ill", *(whole for whole, _ in seen[:1300])],
        "visits_test.csv": [f"{of_visits};ill", *(whole for whole, _ in seen[1300:1700])],
        "visits_new.csv": [of_visits, *(part for _, part in seen[1700:])],
        "claims.csv": [f"{of_claims},cost", *(whole for whole, _ in made[:1000])],
        "claims_test.csv": [f"{of_claims},cost", *(whole for whole, _ in made[1000:1400])],
        "claims_new.csv": [of_claims, *(part for _, part in made[1400:])],
    }
    return {name: "\n".join(lines) + "\n" for name, lines in parts.items()}


if __name__ == "__main__":
    for name, content in files().items():
        (HERE / name).write_text(content, encoding="utf-8")

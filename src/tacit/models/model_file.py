"""A model as a file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, get_args

from tacit.errors import InputError
from tacit.models.model import Model, Term
from tacit.tables.bounds import bounds_from_dict, bounds_to_dict
from tacit.typing import Task

FORMAT = 1


def save_model(model: Model, path: Path) -> None:
    """Write the model to `path`, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(model_text(model), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path} cannot be written ({reason}); name another file") from error
    finally:
        part.unlink(missing_ok=True)


def load_model(path: Path) -> Model:
    """Return the model in the file `path`.

    Raises
    ------
    InputError
        If the file cannot be read or is not a whole, consistent model.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        json.dumps(values, ensure_ascii=False).encode()  # half a character could not be printed
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"the model {path} cannot be read ({reason})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a model: not valid JSON; is it cut short?") from error
    try:
        return _model(values)
    except InputError as error:
        raise InputError(f"{path} is not a model that can be used: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} is not a model: a part is missing or of the wrong kind; name the model.json "
            "that tacit train --out DIR wrote"
        ) from error


def model_text(model: Model) -> str:
    """Return the content of a model file: strictly valid JSON."""
    return json.dumps(model_to_dict(model), indent=1, allow_nan=False) + "\n"


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return the model as plain values that JSON can say."""
    return {
        "format": FORMAT,
        "tacit_version": model.tacit_version,
        "data": model.data,
        "task": model.task,
        "loss": model.loss,
        "target": model.target,
        "labels": None if model.labels is None else list(model.labels),
        "terms": [
            {**term._asdict(), "coefficient": list(term.coefficient)} for term in model.terms
        ],
        "preprocessing": None if model.bounds is None else bounds_to_dict(model.bounds),
        "certificate": model.certificate,
        "statement": list(model.statement),
    }


def _model(values: Any) -> Model:
    if values["format"] != FORMAT or values["task"] not in get_args(Task):
        raise InputError(f"it is not of format {FORMAT}; train again with this version of tacit")
    labels, bounds, certificate = values["labels"], values["preprocessing"], values["certificate"]
    if not isinstance(certificate, dict):
        raise InputError("its certificate is missing; train again")
    return Model(
        data=str(values["data"]),
        task=values["task"],
        loss=str(values["loss"]),
        target=str(values["target"]),
        labels=None if labels is None else tuple(map(str, labels)),
        bounds=None if bounds is None else bounds_from_dict(bounds),
        terms=tuple(_term(term) for term in values["terms"]),
        certificate=certificate,
        statement=tuple(map(str, values["statement"])),
        tacit_version=str(values["tacit_version"]),
    )


def _term(values: Mapping[str, Any]) -> Term:
    coefficient = tuple(float(value) for value in values["coefficient"])
    if not all(map(math.isfinite, coefficient)):
        raise InputError("a coefficient is not finite; train again")
    return Term(values["column"], values["value"], coefficient)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)

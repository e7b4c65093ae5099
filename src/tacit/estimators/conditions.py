"""What a certificate of an estimator rests on, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.errors import PrivacyWarning, PublicFactsWarning
from tacit.privacy import delta_warning
from tacit.problems import Persons

_OF_RECORDS = "the number of records of each agent, and who owns which, is public"
_OF_PERSONS = (
    "the number of persons of each agent is public, and so is which agents have rows of a person; "
    "how many rows one has is not"
)
AS_THEY_ARE = (
    "X and y were not scaled, imputed, selected, resampled or otherwise changed beforehand with "
    "numbers that were computed from the records: each row is one record, changed by public rules "
    "at most, and stands there once"
)


def owners_condition(rows_per_person: int | None, *, dealt: bool) -> str:
    """Return what is public of who owns which row, which is secret where rows are dealt out."""
    if dealt:
        units = "records" if rows_per_person is None else "persons"
        return f"the number of {units} of each agent is public"
    return _OF_RECORDS if rows_per_person is None else _OF_PERSONS


def fact_condition(what: str, setting: str, public: bool, rows_per_person: int | None) -> str:
    """Return the condition that a fact is public, or that it does not depend on the records."""
    if public:
        return f"{what} are public, as the caller declares ({setting}=)"
    one = "record says" if rows_per_person is None else "person's rows say"
    return (
        f"{what} were read off the records themselves ({setting}=None): the certificate holds only "
        f"if they would be the same whatever one {one}"
    )


def fit_warnings(
    facts: Iterable[tuple[str, str, bool]], delta: float, units: int | Persons
) -> list[tuple[type[Warning], str]]:
    """Return the warnings about facts that were read off the records, and about delta."""
    from_data: list[tuple[type[Warning], str]] = [
        (
            PublicFactsWarning,
            f"the certificate is conditional: {what} were read off the records; pass {setting}= "
            "with what was public beforehand",
        )
        for what, setting, public in facts
        if not public
    ]
    counted = (units.count, "persons") if isinstance(units, Persons) else (units,)
    return from_data + [(PrivacyWarning, text) for text in delta_warning(delta, *counted)]

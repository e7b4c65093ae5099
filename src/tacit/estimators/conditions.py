"""The conditions under which the certificate of a fit holds, in words."""

from __future__ import annotations

OWNERS = "the number of records of each agent, and who owns which, is public"
AS_THEY_ARE = (
    "X and y were not scaled, imputed, selected, resampled or otherwise changed beforehand with "
    "numbers that were computed from the records: each row is one record, changed by public rules "
    "at most, and stands there once"
)


def condition(what: str, setting: str, public: bool) -> str:
    """Return the condition about a fact that is taken for public, given or read off records."""
    if public:
        return f"{what} are public, as the caller declares ({setting}=)"
    return (
        f"{what} were read off the records themselves ({setting}=None): the certificate holds only "
        "if they would be the same whatever one record says"
    )

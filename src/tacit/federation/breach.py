"""A breach: what somebody else said is against the agreement, as public facts show."""

from tacit.errors import TacitError


class BreachError(TacitError):
    """Somebody signed what the agreement rules out; the run ends, and the line says who and what.

    Nothing of a record is in it, and it follows from public facts alone.
    """

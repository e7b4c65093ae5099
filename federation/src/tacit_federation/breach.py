"""Two reasons to refuse: what somebody else said, and what stands in the site's own file."""

from tacit.errors import TacitError


class BreachError(TacitError):
    """Somebody signed what the agreement rules out; the run ends, and the line says who and what.

    Nothing of a record is in it, and it follows from public facts alone.
    """


class UnreadableError(TacitError):
    """A cell of a site's own file is not what the bounds declare: a fact about the records.

    The run stays charged whole, and the reason is told to the owner alone.
    """

"""Two reasons to refuse: what somebody else said, and what stands in the site's own file."""

from taciturn.errors import TaciturnError


class BreachError(TaciturnError):
    """Somebody signed what the agreement rules out; the run ends, and the line says who and what.

    Nothing of a record is in it, and it follows from public facts alone.
    """


class UnreadableError(TaciturnError):
    """A cell of a site's own file is not what the bounds declare: a fact about the records.

    The run stays charged whole, and the reason is told to the owner alone.
    """

"""Names with numbers, as a person gives them: `elastic:1e-3,1e-2`."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from tacit.errors import InputError
from tacit.proposal.document import Part

Name = Annotated[str, Field(max_length=200)]


class Named(Part):
    """A loss, regulariser or constraint: a name with numbers, as in `elastic:1e-3,1e-2`."""

    name: Name
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, what: str, text: str) -> Named:
        """Return what a text such as `l2:1e-6` says.

        Raises
        ------
        InputError
            If what stands after the colon are no numbers.
        """
        name, colon, rest = text.partition(":")
        try:
            numbers = tuple(float(part) for part in rest.split(",")) if colon else ()
        except ValueError as error:
            raise InputError(
                f"{what} is {text!r}; after the colon come numbers, as in {name}:0.1"
            ) from error
        if not all(math.isfinite(number) for number in numbers):
            raise InputError(f"{what} is {text!r}; its numbers must be finite")
        return cls(name=name, numbers=numbers)

    def __str__(self) -> str:
        if not self.numbers:
            return self.name
        return f"{self.name}:{','.join(_plain(number) for number in self.numbers)}"


NONE = Named(name="none", numbers=())


def _plain(number: float) -> str:
    """Return a number in its shortest form, exponents without leading zeros."""
    text = repr(number).removesuffix(".0")
    base, exponent, power = text.partition("e")
    return f"{base}e{int(power)}" if exponent else text

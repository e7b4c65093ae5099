"""Public maps from encoded records to features: what a linear model is linear in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from jaxtyping import Float

from tacit import checks
from tacit.errors import InputError
from tacit.typing import HostArray


@dataclass(frozen=True)
class Inputs:
    """What is public about encoded records before a feature map.

    Attributes
    ----------
    names
        D names of columns.
    record_norm
        R: packing clips every row to it.
    numbers
        The columns that are numbers in [-1, 1], by index; the others are categories and the like.
    constant
        The column that is 1 in every row, by index; None if there is none.
    picture
        Height, width and channels of a row that is a picture, in this order of its columns: channel
        by channel, each row by row; None for other data.

    Raises
    ------
    InputError
        If there is no column, an index is none of a column, or a picture has another size.
    """

    names: tuple[str, ...]
    record_norm: float
    numbers: tuple[int, ...] = ()
    constant: int | None = None
    picture: tuple[int, int, int] | None = field(default=None)

    def __post_init__(self) -> None:
        checks.positive("record_norm", self.record_norm)
        columns = len(self.names)
        if columns == 0:
            raise InputError("there is no column to compute features of; give at least one")
        marked = (*self.numbers, *(() if self.constant is None else (self.constant,)))
        if any(not 0 <= index < columns for index in marked) or len(set(marked)) < len(marked):
            raise InputError(
                f"numbers are columns {self.numbers} and the constant is {self.constant}; they "
                f"must be different, from 0 to {columns - 1}"
            )
        if self.picture is not None:
            height, width, channels = self.picture
            if height * width * channels != columns:
                raise InputError(
                    f"a picture of {height} x {width} x {channels} has "
                    f"{height * width * channels} numbers, the records have {columns}"
                )


class FeatureMap(ABC):
    """A public function of one record, the same for every agent.

    **Guarantee.** A map is a function of one row and of public facts (`Inputs`, its own settings
    and seed), so neighbouring data sets stay neighbouring: where one record is replaced, one row of
    features is. Packing clips rows to `record_norm`, whatever a map returns, so a sensitivity never
    rests on the bound that a map states; a bound below the norms that occur costs accuracy.
    """

    @property
    def costly(self) -> bool:
        """Whether features of published records are worth keeping on disk; here they are not."""
        return False

    @property
    @abstractmethod
    def columns(self) -> int:
        """K, computed without making so many names."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the K features."""

    @property
    @abstractmethod
    def record_norm(self) -> float:
        """A bound on the Euclidean norm of a row of features."""

    @abstractmethod
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        """Return the features of records, in single precision or better."""

"""Where studies and sites keep their files: folders of the user's, for nobody else to read."""

from __future__ import annotations

from pathlib import Path

from taciturn.budget import data_folder, private_folder
from taciturn.errors import InputError
from taciturn_federation.joining import check_party


def studies_folder(given: Path | None = None) -> Path:
    """Return the folder of a coordinator's studies; if none is given, in the user's data folder."""
    return data_folder() / "studies" if given is None else given


def sites_folder(given: Path | None = None) -> Path:
    """Return the folder of an owner's sites; if none is given, in the user's data folder."""
    return data_folder() / "sites" if given is None else given


def study_folder(study: str, folder: Path | None = None) -> Path:
    """Return the folder of a coordinator's study."""
    return studies_folder(folder) / check_party(study, "a study")


def site_folder(study: str, name: str, folder: Path | None = None) -> Path:
    """Return the folder of a site in a study."""
    return sites_folder(folder) / check_party(study, "a study") / check_party(name)


def found_site(study: str, name: str | None, folder: Path | None = None) -> Path:
    """Return the folder of the site of a study; without a name that of the only one.

    Raises
    ------
    InputError
        If there is none, or there are several and no name is given.
    """
    if name is not None:
        place = site_folder(study, name, folder)
        if not place.is_dir():
            raise InputError(
                f"there is no site {name!r} of study {study!r} in {place.parent}; join first "
                "(taciturn site join), or name the folder with --sites"
            )
        return place
    place = sites_folder(folder) / check_party(study, "a study")
    found = sorted(one for one in place.iterdir() if one.is_dir()) if place.is_dir() else []
    if not found:
        raise InputError(
            f"there is no site of study {study!r} in {place.parent}; join first (taciturn site "
            "join), "
            "or name the folder with --sites"
        )
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise InputError(f"there are several sites of study {study!r} ({names}); add --name")
    return found[0]


def make_folder(folder: Path) -> Path:
    """Make a folder that only its user can enter, and return it; it must be new.

    Raises
    ------
    InputError
        If it is there already, or cannot be made.
    """
    try:
        private_folder(folder.parent)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError(f"there is {folder} already, with keys that are not replaced") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}); make room") from None
    return folder


def read_text(file: Path) -> str:
    """Return the text of a file of a study or a site.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read ({type(error).__name__}); name the file of the coordinator, or "
            "put back what taciturn study new or taciturn site join made"
        ) from None

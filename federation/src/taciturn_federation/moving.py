"""The hub's address moves: a study signs its invitation again, and its sites take that one."""

from __future__ import annotations

from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation.agreement import UNSIGNED, Invitation
from taciturn_federation.folders import SiteFolder, StudyFolder


def move_study(study: StudyFolder, hub: str) -> StudyFolder:
    """Return a study whose invitation names another address (host:port) of its hub.

    The hub keeps its certificate, in which there is no address. Raises `InputError` if `hub` is no
    address.
    """
    changed = study.invitation.model_copy(update={"hub": hub, "signature": UNSIGNED})
    # a copy is not validated: read again, so that the address is checked
    invitation = Invitation.from_json(changed.to_json()).signed(study.signing_key())
    write_text(invitation.to_json() + "\n", study.folder / "invitation.json")
    return StudyFolder(study.folder, invitation)


def move_site(site: SiteFolder, invitation: Invitation) -> SiteFolder:
    """Return a site that connects to the hub of another invitation of its study.

    **Guarantee.** Only the address can change: the key of the coordinator, the certificate of the
    hub and what is public of the columns are those of the invitation whose fingerprint the owner
    compared.

    Raises `InputError` if the invitation is not signed or differs in anything else.
    """
    address = {"hub": invitation.check_signed().hub, "signature": invitation.signature}
    if site.invitation.model_copy(update=address) != invitation:
        raise InputError(
            f"the invitation is not that of study {site.invitation.study!r} with another address "
            "of the hub; ask the coordinator for the one that taciturn study move wrote, or join "
            "another study"
        )
    write_text(invitation.to_json() + "\n", site.folder / "invitation.json")
    return SiteFolder(site.folder, invitation, site.facts)

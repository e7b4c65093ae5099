from .agreement import Invitation, JoinRequest, Member, Participant, SignedProposal, sign
from .coordinator import Coordinator
from .folders import (
    SiteFolder,
    StudyFolder,
    User,
    admit,
    found_site,
    join,
    keep_proposal,
    new_study,
    open_site,
    open_study,
    read_invitation,
    renew_site,
    site_folder,
    sites_folder,
    strike,
    study_folder,
)
from .hub import Server, configuration, hub_configuration, run_hub, seen_struck, server_program
from .interface import Outcome, Packet, Party, Progress
from .journal import Journal
from .keys import Nkey
from .local import LastQuestion, certificate_for, derive
from .masks import remove_stale_keys
from .reports import Check, Ended, check_proposal, ended_values, lines_of, save_ended
from .site import Site
from .transport import Link, Watch, decline, run_party, serve

__all__ = [
    "Check", "Coordinator", "Ended", "Invitation", "JoinRequest", "Journal", "LastQuestion",
    "Link", "Member", "Nkey", "Outcome", "Packet", "Participant", "Party", "Progress", "Server",
    "SignedProposal", "Site", "SiteFolder", "StudyFolder", "User", "Watch", "admit",
    "certificate_for", "check_proposal", "configuration", "decline", "derive", "ended_values",
    "found_site", "hub_configuration", "join", "keep_proposal", "lines_of", "new_study",
    "open_site", "open_study", "read_invitation", "remove_stale_keys", "renew_site", "run_hub",
    "run_party", "save_ended", "seen_struck", "serve", "server_program", "sign", "site_folder",
    "sites_folder", "strike", "study_folder",
]  # fmt: skip

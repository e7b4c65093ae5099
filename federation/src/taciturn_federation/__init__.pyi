from .agreement import Invitation, JoinRequest, Member, Participant, SignedProposal, sign
from .apps import write_app
from .coordinator import Coordinator
from .envelope import Packet
from .folders import (
    SiteFolder,
    StudyFolder,
    User,
    admit,
    find_site,
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
from .hub import Server, after_strike, configuration, hub_configuration, run_hub, server_program
from .inbox import Outcome, Party, Progress
from .journal import Journal
from .keys import Nkey
from .local import EvaluationLeg, certificate_for, derive
from .masks import remove_stale_keys
from .reports import Check, RunReport, check_proposal
from .site import Site
from .sockets import SocketLink
from .transport import Connection, Link, Transport, Watch, decline, run_party, serve

__all__ = [
    "Check", "Connection", "Coordinator", "EvaluationLeg", "Invitation", "JoinRequest", "Journal",
    "Link", "Member", "Nkey", "Outcome", "Packet", "Participant", "Party", "Progress", "RunReport",
    "Server", "SignedProposal", "Site", "SiteFolder", "SocketLink", "StudyFolder", "Transport",
    "User", "Watch", "admit", "after_strike", "certificate_for", "check_proposal", "configuration",
    "decline", "derive", "find_site", "hub_configuration", "join", "keep_proposal", "new_study",
    "open_site", "open_study", "read_invitation", "remove_stale_keys", "renew_site", "run_hub",
    "run_party", "serve", "server_program", "sign", "site_folder", "sites_folder", "strike",
    "study_folder", "write_app",
]  # fmt: skip

from .agreement import Member, Participant, SignedProposal, sign
from .checking import Check, check_proposal
from .coordinator import Coordinator
from .declining import decline
from .hub import hub_configuration, run_hub, seen_struck
from .joining import Invitation, JoinRequest
from .journal import Journal
from .keys import Nkey
from .last_question import LastQuestion
from .local import certificate_for, derive
from .masking import clear_masks
from .party import Outcome, Packet, Party, Progress
from .places import found_site, site_folder, sites_folder, study_folder
from .reports import Ended, ended_values, lines_of, save_ended
from .server import Server, User, configuration, server_program
from .site import Site
from .sites import SiteFolder, join, open_site, read_invitation, renew_site
from .study import StudyFolder, admit, keep_proposal, new_study, open_study, strike
from .transport import Link, Watch, run_party, serve

__all__ = [
    "Check",
    "Coordinator",
    "Ended",
    "Invitation",
    "JoinRequest",
    "Journal",
    "LastQuestion",
    "Link",
    "Member",
    "Nkey",
    "Outcome",
    "Packet",
    "Participant",
    "Party",
    "Progress",
    "Server",
    "SignedProposal",
    "Site",
    "SiteFolder",
    "StudyFolder",
    "User",
    "Watch",
    "admit",
    "certificate_for",
    "check_proposal",
    "clear_masks",
    "configuration",
    "decline",
    "derive",
    "ended_values",
    "found_site",
    "hub_configuration",
    "join",
    "keep_proposal",
    "lines_of",
    "new_study",
    "open_site",
    "open_study",
    "read_invitation",
    "renew_site",
    "run_hub",
    "run_party",
    "save_ended",
    "seen_struck",
    "serve",
    "server_program",
    "sign",
    "site_folder",
    "sites_folder",
    "strike",
    "study_folder",
]

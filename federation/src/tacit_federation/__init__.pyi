from tacit_federation.agreement import Member, Participant, SignedProposal, sign
from tacit_federation.authority import certificate_fingerprint, read_certificate
from tacit_federation.checking import Check, check_proposal
from tacit_federation.coordinator import Coordinator
from tacit_federation.declining import decline
from tacit_federation.hub import hub_configuration, run_hub, seen_struck
from tacit_federation.joining import Invitation, JoinRequest
from tacit_federation.journal import Journal
from tacit_federation.last_question import LastQuestion
from tacit_federation.leftover import clear_masks
from tacit_federation.local import certificate_for, derive
from tacit_federation.party import Outcome, Packet, Party, Progress
from tacit_federation.places import found_site, site_folder, sites_folder, study_folder
from tacit_federation.reports import Ended, ended_values, lines_of, save_ended
from tacit_federation.server import Server, User, configuration, server_program
from tacit_federation.site import Site
from tacit_federation.sites import SiteFolder, join, open_site, read_invitation
from tacit_federation.sites import renew as renew_site
from tacit_federation.study import StudyFolder, admit, keep_proposal, new_study, open_study, strike
from tacit_federation.study import renew as renew_study
from tacit_federation.transport import Link, Watch, run_party, serve

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
    "certificate_fingerprint",
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
    "read_certificate",
    "read_invitation",
    "renew_site",
    "renew_study",
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

"""Agents on machines of their own: parties of a run that exchange signed messages."""

from tacit.federation.agreement import Member, Participant, SignedProposal, sign
from tacit.federation.checking import Check, check_proposal
from tacit.federation.coordinator import Coordinator
from tacit.federation.credentials import Nkey
from tacit.federation.declining import decline
from tacit.federation.hub import hub_configuration, run_hub, seen_struck
from tacit.federation.joining import Invitation, JoinRequest
from tacit.federation.journal import Journal
from tacit.federation.last_question import LastQuestion
from tacit.federation.leftover import clear_masks
from tacit.federation.local import certificate_for, derive
from tacit.federation.party import Outcome, Packet, Party, Progress
from tacit.federation.places import found_site, site_folder, sites_folder, study_folder
from tacit.federation.reports import Ended, ended_values, lines_of, save_ended
from tacit.federation.server import Server, User, configuration, server_program
from tacit.federation.site import Site
from tacit.federation.sites import SiteFolder, join, open_site, read_invitation
from tacit.federation.sites import renew as renew_site
from tacit.federation.study import StudyFolder, admit, keep_proposal, new_study, open_study, strike
from tacit.federation.transport import Link, Watch, run_party, serve

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

"""Attacks on runs, for the data custodian: results are not a release."""

from tacit.audit.auditing import AuditReport, audit
from tacit.audit.conformance import Conformance, Law, check_method, check_oracle
from tacit.audit.epsilon import EpsilonBound, audit_perturbed, audit_sampled, epsilon_lower_bound
from tacit.audit.faults import Fault, fault_named, plant
from tacit.audit.likelihood import LowerBound, log_likelihood_ratio, lower_bound
from tacit.audit.pairwise import Pairwise, pairwise_mu
from tacit.audit.recorded import ReplayReport, ResidualReport, replay, residual_report
from tacit.audit.subject import Canary, canary

__all__ = [
    "AuditReport",
    "Canary",
    "Conformance",
    "EpsilonBound",
    "Fault",
    "Law",
    "LowerBound",
    "Pairwise",
    "ReplayReport",
    "ResidualReport",
    "audit",
    "audit_perturbed",
    "audit_sampled",
    "canary",
    "check_method",
    "check_oracle",
    "epsilon_lower_bound",
    "fault_named",
    "log_likelihood_ratio",
    "lower_bound",
    "pairwise_mu",
    "plant",
    "replay",
    "residual_report",
]

"""Attacks on runs, for the data custodian; their results must not be released."""

from taciturn.audit.auditing import AuditReport, audit
from taciturn.audit.conformance import Conformance, Law, check, check_method, check_oracle
from taciturn.audit.epsilon import (
    EpsilonBound,
    LowerBound,
    audit_perturbed,
    audit_sampled,
    epsilon_lower_bound,
    log_likelihood_ratio,
    lower_bound,
)
from taciturn.audit.neighbours import replace_record, zero_record
from taciturn.audit.pairwise import Pairwise, pairwise_mu
from taciturn.audit.recorded import ReplayReport, ResidualReport, replay, residual_report
from taciturn.audit.subject import Canary, Fault, canary, fault_named, plant

__all__ = [
    "AuditReport", "Canary", "Conformance", "EpsilonBound", "Fault", "Law", "LowerBound",
    "Pairwise", "ReplayReport", "ResidualReport", "audit", "audit_perturbed", "audit_sampled",
    "canary", "check", "check_method", "check_oracle", "epsilon_lower_bound", "fault_named",
    "log_likelihood_ratio", "lower_bound", "pairwise_mu", "plant", "replace_record", "replay",
    "residual_report", "zero_record",
]  # fmt: skip

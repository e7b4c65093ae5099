"""A certificate as a draft for a registry of deployments, and as answers to NIST SP 800-226.

The registry is the Differential Privacy Deployments Registry (Nanayakkara, Ghazi and Vadhan,
arXiv:2509.13509); fields are those of its `schemas/deployments-schema.yaml`. What a certificate
does not state is left open for the publisher of the model: docs/reference/disclosure.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from taciturn.kernel.privacy import SCOPE, Certificate
from taciturn.report.recomputed import certificate_of

TO_FILL_IN = "TO BE FILLED IN by whoever publishes this"
_MODELS = {
    "messages": "every message of every agent may be read, and so may the model",
    "sum": "a secure aggregation shows the sum over all agents only",
}
_COMPOSITION = (
    "Answers of an agent compose in sequence (Gaussian ones exactly, by mu; others by privacy-loss "
    "distributions or Renyi divergences). Agents hold disjoint records, and parts of the records "
    "are disjoint, so both compose in parallel. " + SCOPE.capitalize() + "."
)
_TUNING = (
    "Preprocessing uses the public facts in the conditions. Answers for a centre, and a choice "
    "among candidates, are part of the certificate if its legs state them. Other trials: "
    f"{TO_FILL_IN}."
)


def registry_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a draft of a record of the registry, from the document of a certificate.

    Enumerated fields that a certificate does not decide hold `TO_FILL_IN` too, so that the
    registry's validation refuses an incomplete draft.
    """
    certificate = certificate_of(document)
    found = _certified(document, certificate)
    return {
        "url_slug": TO_FILL_IN,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": TO_FILL_IN,
                "data_curators": [TO_FILL_IN],
                "intended_use": TO_FILL_IN,
                "data_product_type": TO_FILL_IN,
                "data_product_region": TO_FILL_IN,
                "description": TO_FILL_IN,
                "publication_date": TO_FILL_IN,
                "data_product_sector": TO_FILL_IN,
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Records as the conditions describe them. {found['conditions']}",
                "unprotected_quantities": f"{found['public']} Others: {TO_FILL_IN}.",
            },
            "privacy_loss": {
                "privacy_unit": certificate.unit,
                "privacy_unit_details": found["unit"],
                "privacy_parameters": found["parameters"],
                "privacy_parameters_details": found["details"],
            },
            "deployment_model": {
                # no certificate says whether its agents are separate parties
                "model_name": "Central" if found["dealt"] else TO_FILL_IN,
                "model_name_details": found["model"],
                "actors": f"{found['observer']} Who these are: {TO_FILL_IN}.",
                "release_type": TO_FILL_IN,
                "release_type_details": f"The certificate is of {SCOPE}.",
                "data_source_type": TO_FILL_IN,
                "access_type": TO_FILL_IN,
            },
            "accounting": {
                "post_processing": "The model is a function of noised answers and public facts. "
                f"What is done with it later: {TO_FILL_IN}.",
                "composition": _COMPOSITION,
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _TUNING,
                "mechanisms": f"{found['mechanisms']} Security of the data: {TO_FILL_IN}.",
                "justification": TO_FILL_IN,
            },
            "administrative": {"notes": found["run"], "registry_authors": [TO_FILL_IN]},
        },
    }


def nist_page(document: Mapping[str, Any]) -> str:
    """Return Markdown that answers each block of the pyramid of SP 800-226 from a certificate."""
    certificate = certificate_of(document)
    found = _certified(document, certificate)
    limits = "The unit record is event-level: a person with several rows has a weaker guarantee."
    level = limits if certificate.unit == "record" else ""
    blocks = {
        "Privacy parameters (section 2)": f"{found['promise']} {found['details']}",
        "Unit of privacy (section 2)": f"{found['unit']} {level} {found['public']}",
        "Algorithms and correctness (section 3)": f"{found['mechanisms']} {_COMPOSITION} "
        "The figures were recomputed from the stated answers; taciturn verify does so "
        "independently. No file can show that the run happened as stated.",
        "Utility (section 3)": "Not in a certificate; the report has it. For this use: "
        f"{TO_FILL_IN}.",
        "Bias (section 3)": "Not in a certificate. Noise affects small groups more, and clipping "
        f"biases large contributions. Which groups are affected: {TO_FILL_IN}.",
        "Trust models (section 4)": found["observer"],
        "Side channels (section 4)": f"{found['arithmetic']} Running times: {TO_FILL_IN}.",
        "Access control (section 4)": f"Who holds the records and may read them: {TO_FILL_IN}.",
        "Data collection exposure (section 4)": f"{TO_FILL_IN}. {_TUNING}",
    }
    parts = [f"## {name}\n\n{' '.join(text.split())}\n" for name, text in blocks.items()]
    conditions = "\n".join(f"- {one}" for one in certificate.conditions) or "- none is stated"
    head = f"# Answers to NIST SP 800-226\n\n{found['run']}\n"
    return "\n".join([head, *parts, f"## Conditions of the certificate\n\n{conditions}\n"])


def _certified(document: Mapping[str, Any], certificate: Certificate) -> dict[str, Any]:
    """Return the statements of a certificate that both formats quote, by name."""
    stated = {line.split(": ")[0]: line for line in map(str, document["statement"])}
    infinite = math.isinf(certificate.epsilon)
    void = certificate.reproduction or infinite
    legs = document["legs"]
    noise = sorted({leg["noise"] for leg in legs if "noise" in leg})
    kinds = sorted({one["kind"] for leg in legs for one in leg.get("questions", ())})
    answers = [one for leg in legs for slot in leg.get("slots", ()) for one in slot["answers"]]
    batches = any(one.get("rate", 1) < 1 for one in answers)
    names = ("data", "algorithm", "agents", "records", "persons", "rounds", "version", "plan")
    mu = "" if certificate.mu is None else f" Exactly Gaussian, mu = {certificate.mu:.6g}."
    counts = "" if certificate.relation == "zero_out" else "Numbers of records are public."
    choice = " One choice by the exponential mechanism." if any("choice" in x for x in legs) else ""
    promise = certificate.lines()[:2] if certificate.reproduction else certificate.lines()[:1]
    return {
        "promise": ". ".join(promise) + ".",
        "parameters": {} if void else {"epsilon": certificate.epsilon, "delta": certificate.delta},
        "details": ("No privacy is promised: a reproduction, or no noise." if void else "")
        + f"{mu} An attacker at 1 % false positives has a true-positive rate of at most "
        f"{certificate.attacker_tpr:.2%}.",
        "unit": f"{stated.get('Protected', '')} Relation {certificate.relation}, unit "
        f"{certificate.unit}.",
        "public": f"{counts} Facts that the conditions call public are not protected.",
        "conditions": " ".join(f"Condition: {one}." for one in certificate.conditions),
        "model": f"Agents: {len(certificate.per_agent_epsilon)}. Each adds noise to what it sends; "
        f"{_MODELS[certificate.observer]}.",
        "dealt": document["terms"]["dealt"] or len(certificate.per_agent_epsilon) == 1,
        "observer": stated.get("Observer", ""),
        "mechanisms": f"Noise {', '.join(noise)}; questions of the kinds {', '.join(kinds)}"
        f"{', on sampled batches' if batches else ''}.{choice} {stated.get('Arithmetic', '')} "
        "Library: taciturn.",
        "arithmetic": stated.get("Arithmetic", ""),
        "run": "What was run, as its file states: "
        + ", ".join(f"{name} {document[name]}" for name in names if name in document)
        + ".",
    }

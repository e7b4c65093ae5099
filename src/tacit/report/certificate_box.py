"""The certificate as part of a page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from tacit.privacy import Certificate
from tacit.report.markup import percent, table_of


def stamps(certificate: Certificate, warnings: Iterable[str]) -> str:
    """Return the warnings at the top of a page."""
    texts = []
    if certificate.reproduction:
        texts.append(
            "reproduction, not private: the noise came from a given seed, and whoever knows the "
            "seed can draw it again"
        )
    if math.isinf(certificate.epsilon):
        texts.append("no privacy: no noise was added")
    texts += [f"warning: {text}" for text in warnings]
    return "\n".join(f'<p class="stamp">{escape(text)}</p>' for text in texts)


def budget(certificate: Certificate) -> str:
    """Return the certified total as text; epsilon is never rounded down."""
    if math.isinf(certificate.epsilon):
        return "epsilon = infinity: no privacy"
    epsilon = math.ceil(certificate.epsilon * 1e4 - 1e-6) / 1e4
    return f"epsilon = {epsilon:.4f}, delta = {certificate.delta:g}"


def certificate_box(certificate: Certificate) -> str:
    """Return the certificate as a framed section."""
    mu = "none: the noise is not exactly Gaussian"
    if certificate.mu is not None:
        mu = f"{certificate.mu:.4g}" if math.isfinite(certificate.mu) else "infinite"
    rows = [
        ("mu (exact Gaussian privacy)", mu),
        ("what one record means", f"{certificate.relation}: {certificate.record}"),
        ("observer", _OBSERVERS.get(certificate.observer, certificate.observer)),
        ("taken on trust", certificate.trust),
        ("best attack", _attacker(certificate)),
        *(("condition", text) for text in certificate.conditions),
    ]
    secret = not certificate.reproduction and math.isfinite(certificate.epsilon)
    only_if = ""
    if certificate.reproduction and math.isfinite(certificate.epsilon):
        only_if = " <em>if the noise were secret</em>"
    return (
        f'<section class="{"box" if secret else "box open"}"><h2>Privacy certificate</h2>'
        f'<p class="figures">{escape(budget(certificate))}{only_if}</p>{table_of(rows)}</section>'
    )


_OBSERVERS = {
    "messages": "messages: reads every message of every agent",
    "sum": "sum: sees the sum over all agents only",
}


def _attacker(certificate: Certificate) -> str:
    if math.isinf(certificate.epsilon):
        return "100 %: there is no noise"
    if certificate.reproduction:
        return "100 % for whoever knows the seed"
    return (
        f"true-positive rate at most {percent(certificate.attacker_tpr)} at 1 % false "
        "positives, for an attacker who knows everything but one record"
    )

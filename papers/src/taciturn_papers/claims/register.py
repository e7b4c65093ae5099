"""The register of checked claims, in the order of their papers."""

from __future__ import annotations

from taciturn.errors import InputError
from taciturn_papers.claims import (
    huang2019_thm1,
    huang2019_thm2,
    huang2019_thm34,
    liu2022_rates,
    liu2022_sc_step,
    liu2022_smoothing,
    liu2022_thm1,
    liu2022_thm2,
    liu2022_thm4_rank,
    ryu2023_flows,
    ryu2023_obj_vs_out,
    ryu2023_opf_sensitivity,
    ryu2023_thm4_2,
    ryu2023_thm4_6,
    ryu2023_thm5,
    wang2024_convergence,
    wang2024_gossip_noise,
    wang2024_growth,
    wang2024_lemma5,
    wang2024_plf,
    wang2024_tables,
    wang2024_thm4,
)
from taciturn_papers.claims.claim import Claim

REGISTER: tuple[Claim, ...] = (
    huang2019_thm1.CLAIM,
    huang2019_thm2.CLAIM,
    huang2019_thm34.THEOREM_3,
    huang2019_thm34.THEOREM_4,
    ryu2023_thm4_2.CLAIM,
    ryu2023_thm4_6.CLAIM,
    ryu2023_thm5.CLAIM,
    ryu2023_obj_vs_out.CLAIM,
    ryu2023_opf_sensitivity.CLAIM,
    ryu2023_flows.CLAIM,
    wang2024_thm4.CLAIM,
    wang2024_lemma5.CLAIM,
    wang2024_tables.CLAIM,
    wang2024_plf.CLAIM,
    wang2024_growth.PLF_CLAIM,
    wang2024_growth.MESSAGES_CLAIM,
    wang2024_convergence.LEMMA_1,
    wang2024_convergence.THEOREM_2,
    wang2024_convergence.THEOREM_3,
    wang2024_gossip_noise.EXTRA_CLAIM,
    wang2024_gossip_noise.NIDS_CLAIM,
    liu2022_thm1.CLAIM,
    liu2022_thm2.CLAIM,
    liu2022_thm4_rank.CLAIM,
    liu2022_smoothing.CLAIM,
    liu2022_sc_step.CLAIM,
    *liu2022_rates.CLAIMS,
)


def claims_named(name: str) -> tuple[Claim, ...]:
    """Return the claim with this id, or all claims of the paper with this key.

    Raises
    ------
    InputError
        If there is none; the message lists the ids.
    """
    found = tuple(claim for claim in REGISTER if name in {claim.id, claim.id.split("/")[0]})
    if not found:
        known = ", ".join(claim.id for claim in REGISTER)
        raise InputError(f"no claim is called {name!r}; the register holds: {known}")
    return found

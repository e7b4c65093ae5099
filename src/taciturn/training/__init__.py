"""From a user's request to a released model: proposal, charge, run, evaluation, choice.

    options, files, arguments -> Request -> Proposal -> Plan
    count -> propose -> charge -> read -> run -> release

Tables, published data sets, arrays given to an estimator and the candidates of a choice all follow
this path (`taciturn.training.training.train`).
"""

from taciturn.training.assessment import Assessment, Metrics
from taciturn.training.evaluation import (
    Evaluated,
    PrivateScore,
    Scale,
    Width,
    ask_held_out,
    evaluation_plan,
    evaluation_seed,
    expected_width,
    percent,
    score_of_totals,
    with_evaluation,
)
from taciturn.training.facts import (
    WEIGHTS_ARE_PUBLIC,
    DataFacts,
    Evaluation,
    TableFacts,
    feature_conditions,
    labels_of,
    weights_by_label,
    weights_text,
)
from taciturn.training.forecast import known_forecast, risk_warning
from taciturn.training.parts import Budget, Structure, check_seed, delta_warning
from taciturn.training.proposal import (
    Proposal,
    agent_rows,
    epsilons_text,
    network_rows,
    network_values,
)
from taciturn.training.records import (
    SIMULATED_AGENTS,
    Counted,
    DividedData,
    Division,
    check_all_hold_out,
    check_data,
    check_known,
    count_data,
    count_files,
    data_facts,
    divide,
    divide_records,
    local_part,
    proposal_for,
    storage_precision,
)
from taciturn.training.request import (
    DEFAULT_NETWORK,
    DEFAULT_REGULARISER,
    NetworkRequest,
    Request,
    StructureRequest,
    centre_text,
    centre_warning,
    chain_of,
    default_of,
    noise_of_centre,
    noise_of_run,
    propose,
)
from taciturn.training.training import (
    Attempts,
    Training,
    model_of,
    released,
    table_model_terms,
    train,
    train_on,
    warnings_of,
)

__all__ = [
    "DEFAULT_NETWORK", "DEFAULT_REGULARISER", "SIMULATED_AGENTS", "WEIGHTS_ARE_PUBLIC",
    "Assessment", "Attempts", "Budget", "Counted", "DataFacts", "DividedData", "Division",
    "Evaluated", "Evaluation", "Metrics", "NetworkRequest", "PrivateScore", "Proposal", "Request",
    "Scale", "Structure", "StructureRequest", "TableFacts", "Training", "Width", "agent_rows",
    "ask_held_out", "centre_text", "centre_warning", "chain_of", "check_all_hold_out", "check_data",
    "check_known", "check_seed", "count_data", "count_files", "data_facts", "default_of",
    "delta_warning", "divide", "divide_records", "epsilons_text", "evaluation_plan",
    "evaluation_seed", "expected_width", "feature_conditions", "known_forecast", "labels_of",
    "local_part", "model_of", "network_rows", "network_values", "noise_of_centre", "noise_of_run",
    "percent", "proposal_for", "propose", "released", "risk_warning", "score_of_totals",
    "storage_precision", "table_model_terms", "train", "train_on", "warnings_of",
    "weights_by_label", "weights_text", "with_evaluation",
]  # fmt: skip

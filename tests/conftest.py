"""Small problems that many tests share."""

import ctypes
import gc
import sys
from collections import defaultdict
from pathlib import Path

import jax
import numpy as np
import pytest

from taciturn.algorithms import DPADMM, NoisyGradient
from taciturn.audit.epsilon import log_likelihood_ratio, lower_bound
from taciturn.datasets import load
from taciturn.engine import compute, reproduction
from taciturn.engine.planning import plan
from taciturn.errors import DataError
from taciturn.kernel.door import Live
from taciturn.kernel.exact import Rival
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.kernel.questions.sampling import gathered
from taciturn.kernel.records import pack
from taciturn.problems import (
    L2,
    Logistic,
    Problem,
    public_facts,
)
from taciturn.training import Request, StructureRequest, divide, proposal_for, train

PAPERS = Path(__file__).parents[1] / "papers" / "taciturn_papers_tests"
QUICK_OF_THE_PAPERS = {"test_commands.py", "test_gallery.py"}


def bounds_of_ill(source="public", ignore=(), **columns):
    """A bounds file for the labels no and yes of `ill`, with what is said of each column."""
    top = (
        [f'source = "{source}"', f"ignore = {list(ignore)}"] if ignore else [f'source = "{source}"']
    )
    sections = {"target": 'name = "ill"\nvalues = ["no", "yes"]'}
    sections |= {f"columns.{name}": said for name, said in columns.items()}
    return "\n".join([*top, *(f"[{name}]\n{said}" for name, said in sections.items())]) + "\n"


def batch_of(oracle, shard, key):
    """Return the records of one batch of an oracle."""
    rows = shard.mask.shape[-1]
    words = jax.random.bits(key, (oracle.sampling.words(rows),), jax.numpy.uint64)
    drawn = oracle.sampling.draw(words, rows, jax.numpy.sum(shard.mask))
    return shard if drawn is None else gathered(shard, drawn)


def packed(features, targets, parts, **changes):
    """These rows divided among agents, of norm 1 at most and in double precision if not said."""
    how = {"record_norm": 1.0, "precision": "float64"} | changes
    return pack(features, targets, parts, **how)


def make_shards(*, agents=4, records=12, features=3, seed=0, precision="float64", classes=None):
    draw = np.random.default_rng(seed)
    rows = agents * records
    x = draw.standard_normal((rows, features))
    y = draw.integers(0, classes, rows) if classes else np.sign(draw.standard_normal(rows))
    parts = np.split(np.arange(rows), agents)
    return pack(x, y, parts, record_norm=1.0, precision=precision)


def make_terms(epsilon=1.0, delta=1e-5, observer=None, relation=None):
    return Terms(
        epsilon, delta, Adjacency(relation or ReplaceOne(), "record"), observer or Messages()
    )


def floating_types(kept):
    """The types of what a sweep keeps, but of the size of the noise, which is in doubles."""
    leaves = jax.tree.leaves_with_path(kept)
    others = (x for path, x in leaves if not jax.tree_util.keystr(path).endswith(".drawn"))
    return {x.dtype for x in others if np.issubdtype(x.dtype, np.floating)}


def make_algorithm(name, problem):
    if name == "dp-admm":
        return DPADMM(problem, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")
    if name == "dp-admm-published":
        return DPADMM(problem, rho=0.1, radius=5.0, step_rule="nonsmooth", regulariser_at="agents")
    return NoisyGradient(problem)


def make_plan(name, shards, *, problem=None, terms=None, rounds=6, clip=1.0, precision="float64"):
    problem = problem or Problem(Logistic())
    return plan(
        public_facts(problem, shards, clip=clip), make_algorithm(name, problem),
        (Gradient(problem.loss, clip),), terms or make_terms(), rounds=rounds, precision=precision,
    )  # fmt: skip


def plan_of(algorithm, shards, oracles=None, terms=None, *, clip=1.0, problem=None, **more):
    """The plan of an algorithm in the precision of these records; it asks for their gradient."""
    problem = problem or algorithm.problem
    more = {"rounds": 6, "precision": shards.stacked.features.dtype.name} | more
    return plan(
        public_facts(problem, shards, clip=clip), algorithm,
        oracles or (Gradient(problem.loss, clip),), terms or make_terms(), **more,
    )  # fmt: skip


# what rounding answers to a lattice costs a plan of full batches, at most: 2^-21 of the noise and
# twice that of epsilon (taciturn.kernel.privacy.mechanisms)
LATTICE = 1e-6
# what rounding adds to the bound of a proximal or projected step (taciturn.kernel.questions.sums)
ROUNDED = 1 + 2.0**-9


def drawn(program, private, seed=0):
    """Return the random numbers of a whole reproduction."""
    return reproduction(program, private, seed)[1].block(0, program.rounds)


def computed(program, private, *, seed=0, keep=frozenset(), door=Live):
    """Return model and trace of a reproduction, behind a door of that class."""
    behind = door(program.oracles, program.mechanism, private)
    return compute(program, behind, drawn(program, private, seed), keep=keep)


def attacked_mu(program, first, second, *, runs=400):
    """Return the lower bound on mu that likelihood ratios of runs on either data set prove."""

    @jax.jit
    def ratios(door, raw):
        def one(raw):
            records = compute(program, door, raw, keep=frozenset())[1].records
            return log_likelihood_ratio(records, program.mechanism, Messages())

        return jax.vmap(one)(raw)

    sides = []
    for seed, actual in ((1, first), (2, second)):
        live, supply = reproduction(program, actual, seed)
        door = Rival(live, program.oracles, first, second)
        sides.append(np.asarray(ratios(door, supply.repeated(runs))))
    return lower_bound(*sides, confidence=0.95).mu


def just_below(value, limit):
    """Whether a cost is at most what real numbers give, and less by no more than the lattice."""
    return bool(np.all(((1 - LATTICE) * limit <= value) & (value <= limit)))


def just_above(value, limit):
    """Whether a noise is at least what real numbers need, and more by no more than the lattice."""
    return bool(np.all((limit <= value) & (value <= (1 + LATTICE) * limit)))


def on_lattice(ledger, sensitivity):
    """What moves a Gaussian answer on a full batch by so much moves it on the ledger's lattice."""
    return sensitivity + 2 * np.max(ledger.step) * np.sqrt(ledger.values)


def trained_on(dataset, *, agents=10, reference=False, seed=None, structure=None, **asked):
    """The training of a request on a data set, as `taciturn train` goes about it."""
    request = Request(**asked)
    data = divide(dataset, agents, split_seed=request.split_seed)
    proposal = proposal_for(data, request, structure or StructureRequest())
    return train(data, proposal, reference=reference, seed=seed)


def published(name, **how):
    """A published data set, or the test is skipped where its files cannot be had."""
    try:
        return load(name, **how)
    except DataError:
        pytest.skip(f"{name}: neither under TACITURN_DATA_DIR nor to be had from its site")


def pytest_collection_finish():
    """Let the collector pass over all that was imported: it takes a twentieth of the time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


# how many parameter sets of a long test are in the quick suite; the slow one has all the others
QUICK_SETS = {
    "test_bad_input_is_one_line_and_charges_nothing": 1,
    "test_a_batch_of_all_records_is_the_mean_over_them_also_for_larger_agents": 1,
    "test_a_broken_oracle_is_seen": 0,
    "test_a_centre_that_is_mostly_noise_is_warned_of": 0,
    "test_a_dependency_that_nothing_imports_is_caught": 0,
    "test_a_fact_read_off_the_records_warns_and_makes_the_certificate_conditional": 1,
    "test_a_failed_write_leaves_what_was_there_before": 2,
    "test_a_fault_in_what_is_drawn_without_a_seed_is_seen_there_and_nowhere_else": 0,
    "test_a_file_that_changed_since_the_run_was_accepted_is_refused": 0,
    "test_a_fit_on_a_feature_map_scores_by_that_map_and_its_certificate_names_it": 1,
    "test_a_fit_that_the_model_0_is_expected_to_beat_warns_and_others_do_not": 1,
    "test_a_generated_table_ends_in_a_model_or_in_one_line": 0,
    "test_a_long_list_of_categories_costs_no_more_than_its_rows": 0,
    "test_a_message_of_more_than_answers_and_a_wrong_bound_are_seen": 0,
    "test_a_model_of_no_use_does_not_look_like_a_success": 0,
    "test_a_neighbour_that_sends_two_messages_for_a_round_is_refused": 0,
    "test_a_plan_that_promises_less_than_the_model_0_says_so_and_what_helps": 0,
    "test_a_proposal_comes_without_other_options": 2,
    "test_a_proposal_for_other_records_trains_nothing": 2,
    "test_a_record_more_in_a_batch_moves_no_other_record": 0,
    "test_a_run_by_whole_steps_is_that_by_messages_but_for_rounding": 1,
    "test_a_sound_algorithm_is_consistent_and_its_bound_is_nearly_attained": 1,
    "test_a_table_in_which_one_of_the_public_labels_occurs_is_trained_on": 1,
    "test_a_token_for_the_turn_of_another_holder_is_refused": 0,
    "test_amplification_claimed_for_a_full_batch_is_caught": 1,
    "test_an_estimator_does_not_repeat_a_cell_of_the_features": 1,
    "test_at_large_queries_a_step_without_that_rule_exceeds_its_bound": 1,
    "test_audit_reports_what_every_layer_saw": 0,
    "test_batches_are_drawn_afresh_where_there_is_no_noise": 1,
    "test_bounds_from_the_data_make_the_certificate_conditional": 0,
    "test_bounds_that_differ_in_the_last_place_are_other_facts": 0,
    "test_calibrated_noise_fits_the_budget_and_slightly_less_does_not": 1,
    "test_digests_of_proposal_and_plan_are_the_same_in_another_process": 0,
    "test_each_planted_fault_is_seen_by_the_layers_that_should_see_it": 3,
    "test_every_declared_dependency_is_imported_by_somebody": 0,
    "test_every_number_survives_the_way_through_json": 0,
    "test_exactly_the_answers_that_can_reach_an_agent_move_what_it_hears": 1,
    "test_features_have_their_names_and_norm_one": 1,
    "test_honest_residuals_pass_as_often_as_promised": 1,
    "test_in_a_folder_that_cannot_be_written_to_nothing_is_charged": 0,
    "test_margins_are_those_of_rational_arithmetic": 1,
    "test_metrics_on_private_records_appear_only_in_their_own_file": 0,
    "test_more_privacy_loss_than_the_account_has_is_no_acceptance": 0,
    "test_no_bounded_change_moves_an_answer_beyond_its_bound": 1,
    "test_no_neighbour_moves_an_answer_by_more_than_its_bound": 2,
    "test_no_order_of_summation_moves_an_answer_beyond_its_bound": 2,
    "test_no_query_makes_rounding_move_an_answer_beyond_its_bound": 1,
    "test_no_record_moves_a_gradient_beyond_the_planned_bound_however_wild": 1,
    "test_no_row_is_longer_than_its_bound_around_any_centre": 1,
    "test_no_true_divergence_exceeds_the_curve": 2,
    "test_of_scores_that_know_nothing_few_pass_as_ranking_and_the_error_is_the_permuted_one": 0,
    "test_on_a_lattice_an_answer_costs_more_than_in_real_numbers_and_a_finer_one_less": 1,
    "test_only_pictures_of_a_published_data_set_are_kept": 1,
    "test_planning_reads_no_record": 1,
    "test_predict_reads_a_file_in_the_form_of_the_training": 0,
    "test_progress_counts_every_round": 1,
    "test_published_sampled_gaussian_numbers": 1,
    "test_sampled_gaussian_answers_lie_in_a_numerical_sandwich": 1,
    "test_sums_of_whole_steps_keep_their_noise_and_sums_of_rounded_messages_do_not": 1,
    "test_the_closed_form_is_the_maximum_that_an_optimiser_finds": 3,
    "test_the_curve_is_nowhere_above_the_published_one": 3,
    "test_the_exact_value_is_that_of_brute_force_which_catches_a_wrong_neighbour_set": 1,
    "test_the_folder_holds_results_plan_state_and_a_page_that_draws_the_network": 0,
    "test_the_gaps_of_the_noise_do_not_tell_two_data_sets_apart": 1,
    "test_the_model_of_an_abandoned_run_is_released_only_if_the_proposal_said_so": 0,
    "test_the_observer_of_sums_learns_what_is_certified_and_no_less": 0,
    "test_the_other_commands_never_show_a_traceback_either": 0,
    "test_the_precision_of_one_draw_is_not_reset_by_another_thread": 0,
    "test_the_proposal_of_an_estimator_reads_back_as_itself": 1,
    "test_the_python_of_a_page_runs_as_printed": 0,
    "test_the_replay_sees_what_travels_on_every_edge": 2,
    "test_the_test_error_is_that_of_the_model_counted_by_hand": 0,
    "test_weights_go_from_the_command_line_to_the_model_file": 0,
    "test_what_is_written_is_read_again": 0,
    "test_without_noise_and_seed_batches_are_drawn_all_the_same": 1,
    "test_without_noise_the_noisy_gradient_keeps_its_proven_rate": 2,
    "test_without_noise_three_classes_are_the_regularised_multinomial_optimum": 0,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow what computes the papers' claims and images, and most sets of long tests."""
    sets = defaultdict(list)
    for item in items:
        if PAPERS in item.path.parents and item.path.name not in QUICK_OF_THE_PAPERS:
            item.add_marker(pytest.mark.slow)
        name = getattr(item, "originalname", None)
        if name in QUICK_SETS and item.get_closest_marker("slow") is None:
            sets[item.path, name].append(item)
    for (_, name), same in sets.items():
        # spread over all sets, so that each kind of network, batch and loss stays
        quick = QUICK_SETS[name]
        kept = {round(k * (len(same) - 1) / max(quick - 1, 1)) for k in range(quick)}
        for place, item in enumerate(same):
            if place not in kept:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Compiled programs of one file are of no use to the next, and add up to gigabytes."""
    yield
    jax.clear_caches()
    # the C library keeps what is freed: without this a worker grows to three times its size
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@pytest.fixture
def shards():
    return make_shards()


@pytest.fixture
def ridge_problem():
    return Problem(Logistic(), L2(0.1))

"""The share of cluster numbers found in simulated embeddings (``cluster_number_scenarios.py``).

Run ``python bench/cluster_number_simulation.py`` for the table of ``docs/cluster-number.md``
(about six minutes on one core), with ``--random 200`` for the table of confidences on random
scenarios, and with ``--easy 20`` for the easy scenarios by the consensus alone. All seeds are fixed,
and they are not those on which the constants were fitted.
"""

from __future__ import annotations

import argparse

import numpy as np
from cluster_number_scenarios import EASY, HARD, Scenario, random_scenario, simulate

from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters

METHODS = ("tail-angle", "silhouette", "lifetime", "consensus")
FIRST_SEED = 60_000
SURE = 0.9


def main() -> None:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10, help="embeddings per scenario")
    parser.add_argument("--random", type=int, default=0, help="random scenarios instead")
    parser.add_argument(
        "--easy", type=int, default=0, help="draws of easy scenarios, consensus only, instead"
    )
    options = parser.parse_args()
    if options.random:
        print_reliability(options.random)
    elif options.easy:
        print_scenarios(EASY, options.easy, methods=METHODS[-1:])
    else:
        print_scenarios(EASY | HARD, options.draws, methods=METHODS)


def print_scenarios(scenarios: dict[str, Scenario], draws: int, *, methods: tuple[str, ...]) -> None:
    """Print the shares found exactly, by scenario and method."""
    print(f"| scenario | {' | '.join(methods)} | within 1 | confidence | confident and wrong |")
    print(f"|{'---|' * (len(methods) + 4)}")
    for name, scenario in scenarios.items():
        found = [infer_by(methods, scenario, FIRST_SEED + draw) for draw in range(draws)]
        print(table_line(name, scenario.n_clusters, found), flush=True)


def print_reliability(count: int) -> None:
    """Print how often the consensus is right, by its confidence."""
    answers = []
    for seed in range(2 * FIRST_SEED, 2 * FIRST_SEED + count):
        scenario = random_scenario(np.random.default_rng(seed))
        found = infer_n_clusters(*simulate(scenario, seed), random_state=seed)
        answers.append((found.confidence, abs(found.value - scenario.n_clusters)))
    confidence, error = np.array(answers).T
    print("| confidence | answers | right | within 1 |\n|---|---|---|---|")
    for low, high in ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0)):
        inside = error[(confidence > low) & (confidence <= high)]
        shares = f"{np.mean(inside == 0):.0%} | {np.mean(inside <= 1):.0%}" if len(inside) else "- | -"
        print(f"| {low} to {high} | {len(inside)} | {shares} |")


def infer_by(methods: tuple[str, ...], scenario: Scenario, seed: int) -> dict[str, ClusterNumber]:
    """Answers of some methods on one draw."""
    rows, pairs = simulate(scenario, seed)
    return {m: infer_n_clusters(rows, pairs, method=m, random_state=seed) for m in methods}


def table_line(name: str, n_clusters: int, found: list[dict[str, ClusterNumber]]) -> str:
    """Shares found exactly; of the consensus also within one, median confidence, sure but wrong."""
    exact = [np.mean([answer[m].value == n_clusters for answer in found]) for m in found[0]]
    said = [answer["consensus"] for answer in found]
    near = np.mean([abs(answer.value - n_clusters) <= 1 for answer in said])
    confidence = np.median([answer.confidence for answer in said])
    wrong = sum(answer.value != n_clusters and answer.confidence > SURE for answer in said)
    cells = [f"{share:.0%}" for share in [*exact, near]]
    return f"| {name} | {' | '.join(cells)} | {confidence:.2f} | {wrong} |"


if __name__ == "__main__":
    main()

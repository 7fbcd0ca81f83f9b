"""Training on answers of which some are wrong.

    train as always -> ask the neighbors of every pair whether its answer is right -> where some are not,
    train once more from the pretrained weights on what each answer is worth, judging again as it learns

Pretraining is shared, so a fit with wrong answers costs at most twice a plain one. Where no answer seems
wrong, the first training is the result, bit for bit. ``clustering/answer_errors.py`` has the judge.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair.clustering.answer_errors import ErrorRates, Judgment, Witnesses, WrongAnswers, judge_answers
from spherepair.clustering.assigners import kmeans
from spherepair.constraints import Constraints
from spherepair.constraints.pair_arrays import pair_keys
from spherepair.errors import InvalidParameterError
from spherepair.estimators.job import FIT, Job, Stage, weigh_pairs
from spherepair.estimators.method_families import EmbeddingClusterer
from spherepair.estimators.setting_search import rehearse
from spherepair.estimators.trust import Rehearsal
from spherepair.terms import SemiSupervisedObjective
from spherepair.terms.row_terms import nearest_neighbors, term_rows
from spherepair.training.batches import PairTensors
from spherepair.training.hardware import torch_generator
from spherepair.training.rows import map_rows
from spherepair.training.session import Session
from spherepair.validation import REAL_SHARE

logger = logging.getLogger(__name__)

WEIGHED = Stage("weighed pairs")
#: Neighbors of a row that are asked.
N_WITNESSES = 20
#: Fewer pairs cannot be judged, and below this estimated share nothing is wrong.
FEWEST_PAIRS, LEAST_SHARE = 50, 0.01
#: Epochs between two judgments while the network is trained again.
JUDGED_EVERY = 2
#: Share of what the neighbors said before in what they say now: one judgment alone wavers.
MEMORY = 0.5
#: Restarts and iterations of k-means for such a judgment.
KMEANS_STARTS, KMEANS_ITERATIONS = 3, 20
#: Neighbors that say "the same" with a probability beyond these contradict an answer or confirm it.
CLEARLY_DIFFERENT, CLEARLY_SAME = 0.2, 0.8
#: Contradictions that are searched for a chain against an answer.
MOST_CHAINS = 1000
#: Share of wrong answers of one kind from which a person's record is a reason.
POOR_RECORD = 0.25


@dataclass(frozen=True)
class Suspect:
    """An answer that may be wrong.

    Attributes
    ----------
    left, right : int
        The two rows.
    link : str
        The answer: "must-link" or "cannot-link".
    by : str
        Who gave it; empty text where it is unknown.
    probability : float
        Probability that it is wrong.
    reason : str
    source_row : int
        Row of the file or position in the list that it comes from; -1 if neither.
    """

    left: int
    right: int
    link: str
    by: str
    probability: float
    reason: str
    source_row: int


class JudgingClusterer(EmbeddingClusterer):
    """A method that estimates which answers are wrong and trains on what each is worth."""

    wrong_answers: float | str | None = None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EmbeddingClusterer._parameter_constraints,
        "wrong_answers": [StrOptions({"auto"}), REAL_SHARE, None],
    }

    def suspects(self, n: int | None = 20) -> list[Suspect]:
        """Answers of the fit that may be wrong, the most suspicious first.

        Parameters
        ----------
        n : int or None, default=20
            Most answers to return; ``None`` for all that are more likely wrong than right.

        Returns
        -------
        list of Suspect
        """
        check_is_fitted(self)
        judgment: Judgment | None = self.judgment_
        if judgment is None:
            raise InvalidParameterError(
                "the answers of this fit were not judged: wrong_answers is None, all are of one kind or "
                f"there are fewer than {FEWEST_PAIRS}; fit with wrong_answers='auto' and more pairs."
            )
        order = np.argsort(judgment.right, kind="stable")
        n_shown = judgment.wrong.n_suspects if n is None else n
        chains = _chains(self.constraints_, order[:n_shown])
        return [_suspect(self.constraints_, judgment, int(place), chains) for place in order[:n_shown]]

    def refine(
        self, constraints: Constraints, X: Any = None, *, X_new: Any = None, on_conflict: str = "weigh"
    ) -> Self:
        """Continue with more pairs and rows, see the base class; answers keep what they are worth."""
        check_is_fitted(self)
        known, judgment, weights = self.constraints_, self.judgment_, self.pair_weights_
        super().refine(constraints, X, X_new=X_new, on_conflict=on_conflict)
        pairs = self.constraints_
        if judgment is not None:
            judgment = Judgment(
                _carry_over(judgment.right, known, pairs, new=1.0),
                _carry_over(judgment.neighbors_same, known, pairs, new=0.5),
                judgment.wrong,
                _carry_over(judgment.informative, known, pairs, new=1.0).astype(bool),
            )
        self._keep(judgment, pairs, worth=_carry_over(weights, known, pairs, new=1.0).astype(np.float32))
        return self

    def restore_judgment(self, wrong: dict[str, Any] | None, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over what a saved model thought of its answers; older models say nothing about them."""
        if wrong is None:
            self._keep(None, self.constraints_)
            return
        parts = (arrays[f"judgment.{name}"] for name in ("right", "neighbors_same", "informative"))
        right, same, informative = parts
        judgment = Judgment(right, same, WrongAnswers.from_dict(wrong), informative)
        self._keep(judgment, self.constraints_, worth=arrays["judgment.weights"])

    def _learn(self, job: Job) -> None:
        if not self._can_judge(job.pairs):
            super()._learn(job)
            self._keep(None, job.pairs)
            return
        network = self._before_pairs(job)
        witnesses, asked = self._find_witnesses(job, network)
        super()._learn(job)

        def judge() -> Judgment:
            logits = self._membership_logits()
            z = torch.from_numpy(self.embedding_[asked]).to(self._hardware.device)
            memberships = logits(z).softmax(dim=1).cpu().numpy()
            return self._judge(job.pairs, witnesses.same(memberships, job.pairs.is_must_link))

        judgment = judge()
        if self.wrong_answers == "auto" and judgment.wrong.share < LEAST_SHARE:
            self._keep(judgment, job.pairs)
            return
        again = Job(job.rows, job.pairs, network, self._fresh_session(network), worth=judgment.worth)
        again.session.history = job.session.history
        self._train_weighed(again, witnesses, asked)
        self._finish(again)
        judgment = judge()
        self._keep(judgment, job.pairs, worth=judgment.worth)
        logger.warning("%s", judgment.wrong)

    def _rehearse(self, job: Job) -> Rehearsal | None:
        return rehearse(self, job, self._before_pairs(job))

    def _can_judge(self, pairs: Constraints) -> bool:
        n_must = int(np.count_nonzero(pairs.is_must_link))
        return bool(self.wrong_answers) and len(pairs) >= FEWEST_PAIRS and 0 < n_must < len(pairs)

    def _evidence_pairs(self) -> Constraints:
        return weigh_pairs(self.constraints_, self.pair_weights_)[self.pair_weights_ >= 0.5]

    def _known_worth(self, pairs: Constraints) -> NDArray[np.float32] | None:
        if bool((self.pair_weights_ == 1.0).all()):
            return None
        return _carry_over(self.pair_weights_, self.constraints_, pairs, new=1.0).astype(np.float32)

    def _keep(
        self, judgment: Judgment | None, pairs: Constraints, worth: NDArray[np.float32] | None = None
    ) -> None:
        self.judgment_ = judgment
        self.wrong_answers_: WrongAnswers | None = None if judgment is None else judgment.wrong
        self.pair_weights_ = np.ones(len(pairs), np.float32) if worth is None else worth

    def _fresh_session(self, network: Any) -> Session:
        """A session without a checkpoint: a resumed fit has its first training and repeats the second."""
        return Session(network, self._hardware, self._seed, monitors=self._monitors())

    def _before_pairs(self, job: Job) -> Any:
        """A copy of the pretrained network."""
        if not job.session.is_resumed(FIT.name):
            return copy.deepcopy(job.network)
        # The checkpoint has the weights after some epochs on pairs; the same seed gives the earlier ones.
        network = self._build_network(self.n_features_in_, self._embedding_dim, self._seed)
        network = network.to(self._hardware.device)
        self._pretrain(Job(job.rows, job.pairs, network, self._fresh_session(network)))
        return network

    def _find_witnesses(self, job: Job, network: Any) -> tuple[Witnesses, NDArray[np.int64]]:
        """Neighbors of the rows in pairs before training on pairs, and the rows that are among them."""
        network.eval()
        z = torch.from_numpy(map_rows(lambda x: self._embed(network, x), job.rows, self._hardware))
        ends, places = np.unique(np.concatenate([job.pairs.left, job.pairs.right]), return_inverse=True)
        seed, device = job.session.seed, self._hardware.device
        rows = term_rows(job.rows.n_rows, torch.from_numpy(ends), seed=seed, device=torch.device("cpu"))
        found = nearest_neighbors(
            z[rows].to(device),
            min(N_WITNESSES, len(rows) - 1),
            generator=torch_generator(seed, "witnesses", device=device),
        ).cpu()
        # Rows in pairs come first in a sample, unless there are more of them than it holds.
        lines = torch.searchsorted(rows, torch.from_numpy(ends)).clamp(max=len(rows) - 1)
        asked, neighbors = np.unique(rows[found[lines]].numpy(), return_inverse=True)
        left, right = np.split(places, 2)
        return Witnesses(neighbors.reshape(len(ends), -1), left, right), asked

    def _judge(self, pairs: Constraints, same: NDArray[np.float64]) -> Judgment:
        share = None if isinstance(self.wrong_answers, str) else self.wrong_answers
        return judge_answers(pairs, same, share=share)

    def _train_weighed(self, job: Job, witnesses: Witnesses, asked: NDArray[np.int64]) -> None:
        """Train on what the answers are worth, and judge them again as the network learns."""
        plan = self._plan(job, WEIGHED)
        batches, same = plan.batches[0], np.zeros(len(job.pairs))

        def reweigh(objective: SemiSupervisedObjective, epoch: int) -> None:
            if epoch == 0 or epoch % JUDGED_EVERY or job.worth is None:
                return
            memberships = self._memberships(objective.embed(torch.from_numpy(asked)), epoch)
            found = witnesses.same(memberships, job.pairs.is_must_link)
            same[:] = found if epoch == JUDGED_EVERY else MEMORY * same + (1.0 - MEMORY) * found
            job.worth[:] = self._judge(job.pairs, same).worth
            batches.pairs.weight.copy_(self._weigh(PairTensors.of(job.weighed)).weight)
            objective.listen_to(PairTensors.of(job.trusted))

        if isinstance(plan.objective, SemiSupervisedObjective):
            plan.objective.reweigh = reweigh
        job.session.run_stage(
            plan,
            stage=WEIGHED.name,
            max_epochs=self._max_epochs(job, WEIGHED),
            stopping=self._stopping_rule(WEIGHED),
        )

    def _memberships(self, z: Tensor, epoch: int) -> NDArray[Any]:
        """Probabilities of the clusters, (n, K), of embeddings (n, D) during training."""
        generator = torch_generator(self._seed, "judging", epoch, device=z.device)
        found = kmeans(
            z,
            self.n_clusters_,
            generator=generator,
            n_init=KMEANS_STARTS,
            max_iter=KMEANS_ITERATIONS,
            tol=None,  # never waits for a GPU
        )
        centers = F.normalize(found, dim=1)
        similarity = z @ centers.T
        variance = (z - centers[similarity.argmax(dim=1)]).square().mean().clamp(min=1e-12)
        memberships: NDArray[Any] = (similarity / variance).softmax(dim=1).cpu().numpy()
        return memberships

    def _weigh(self, pairs: PairTensors) -> PairTensors:
        """The pairs with must-links weighed against cannot-links."""
        raise NotImplementedError


def _carry_over(values: NDArray[Any], old: Constraints, now: Constraints, *, new: float) -> NDArray[Any]:
    """Values of old pairs for those of now, (len(now),), with ``new`` where a pair is new."""
    before, after = np.split(pair_keys(old, now), [len(old)])
    order = np.argsort(before, kind="stable")
    place = order[np.searchsorted(before[order], after).clip(max=len(order) - 1)] if len(order) else after * 0
    is_old = np.isin(after, before)
    return np.where(is_old, values[place] if len(values) else new, new)


def _suspect(pairs: Constraints, judgment: Judgment, place: int, chains: dict[int, str]) -> Suspect:
    by = str(pairs.by[place])
    reasons = [
        _neighbors_say(bool(pairs.is_must_link[place]), float(judgment.neighbors_same[place])),
        chains.get(place, ""),
        _record(by, judgment.wrong.people.get(by), is_must_link=bool(pairs.is_must_link[place])),
    ]
    return Suspect(
        left=int(pairs.left[place]),
        right=int(pairs.right[place]),
        link="must-link" if pairs.is_must_link[place] else "cannot-link",
        by=by,
        probability=float(1.0 - judgment.right[place]),
        reason="; ".join(reason for reason in reasons if reason),
        source_row=int(pairs.source_row[place]),
    )


def _neighbors_say(is_must_link: bool, same: float) -> str:
    said = f"the rows' neighbors belong together with probability {same:.2f}"
    if CLEARLY_DIFFERENT < same < CLEARLY_SAME:
        return f"{said}, which leaves it open"
    return said if is_must_link == (same <= CLEARLY_DIFFERENT) else f"{said}, as the answer says"


def _record(by: str, rates: ErrorRates | None, *, is_must_link: bool) -> str:
    """What speaks against the person who answered."""
    if rates is None or not by:
        return ""
    if not rates.is_informative:
        return f"the answers of {by} say nothing"
    share = rates.must_link if is_must_link else rates.cannot_link
    kind = "must-links" if is_must_link else "cannot-links"
    return f"{100 * share:.0f} % of the {kind} of {by} are wrong" if share >= POOR_RECORD else ""


def _chains(pairs: Constraints, shown: NDArray[np.int64]) -> dict[int, str]:
    """For each of these answers that others contradict, the chain of them."""
    report, wanted = pairs.conflicts(), set(shown.tolist())
    found: dict[int, str] = {}
    for conflict, answers in zip(report[:MOST_CHAINS], report.answers(MOST_CHAINS), strict=True):
        chain = f"must-links {' - '.join(map(str, conflict.chain))}"
        for place in wanted.intersection(answers).difference(found):
            contrary = f"cannot-link ({conflict.left}, {conflict.right})" if place != answers[0] else chain
            found[place] = f"{contrary} contradict{'s' * (place != answers[0])} it"
    return found

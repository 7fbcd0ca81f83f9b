"""Training on answers of which some are wrong.

    train as always -> after two to four fifths of the epochs, ask the neighbors of every pair whether its
    answer is right -> where some are not, start again from the pretrained weights and train on what each
    answer is worth, judging again as the network learns

Not later, because a network first learns what most answers agree on, and the wrong ones by heart only then.
Not earlier, because the clusters that are meant need not be those that the rows form by themselves: then the
neighbors deny many answers at first and none once the network has learned them. Wrong answers are denied to
the end. The first judgment of the second training comes half from the clusters after the first training,
which wrong answers have spoiled, and half from those before any pair was seen, which need not be the ones
that are meant. On a GPU and for large tables a draft, a shorter second training, improves it: which answers
count at first decides which clusters arise. Where must-links are few, it stays one half of every later
judgment, and unsure must-links are left out at first: what is trained on confirms itself.

Where no answer seems wrong, the first training goes on, and its result is that of a plain fit, bit for bit.
The answers are then judged when it has ended. Where the number of clusters is unknown, they are judged by as
many as explain them best (``clustering/best_explanation.py``). ``clustering/answer_errors.py`` has the judge.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair.clustering.answer_errors import (
    FEWEST_PAIRS,
    MOST_WRONG,
    Judge,
    Judgment,
    Witnesses,
)
from spherepair.clustering.assigners import kmeans
from spherepair.clustering.best_explanation import Explanation, explain, explain_best
from spherepair.clustering.error_rates import WrongAnswers
from spherepair.clustering.suspects import Suspect, list_suspects
from spherepair.constraints import Constraints
from spherepair.constraints.pair_arrays import positions_among
from spherepair.errors import InvalidParameterError
from spherepair.estimators.base import DeepConstrainedClusterer
from spherepair.estimators.job import FIT, Job, Stage, weigh_pairs
from spherepair.estimators.reweighing import Look, Reweighing
from spherepair.estimators.setting_search import train_with_hold_out
from spherepair.estimators.trust import HoldOut
from spherepair.terms import SemiSupervisedObjective
from spherepair.terms.neighbor_search import nearest_neighbors
from spherepair.terms.row_terms import term_rows
from spherepair.training.batches import PairTensors
from spherepair.training.hardware import torch_generator
from spherepair.training.rows import map_rows, map_some_rows

logger = logging.getLogger(__name__)

FURTHER, DRAFT, WEIGHED = Stage("further pretraining"), Stage("weighed pairs, draft"), Stage("weighed pairs")
#: The draft of the second training takes this share of its epochs.
DRAFT_SHARE = 0.6
#: Names under which a checkpoint of the first training keeps what the second needs.
PRETRAINED, SAME, N_CLUSTERS = "pretrained.", "same", "n_clusters"
#: So many neighbors of a row judge its answers.
N_WITNESSES = 20
#: Neighbors are found by comparing at most so many pairs of rows, so many at a time; beyond that, by trees.
MOST_COMPARED, COMPARED_AT_ONCE = 2**27, 2**21
#: A smaller estimated share counts as no wrong answers at all.
LEAST_SHARE = 0.01
#: The answers are judged so many times, evenly spaced, during the first training.
LOOKS = 5
#: After so many judgments the first training ends if at most this share of the answers seems wrong.
INSISTENCE = {2: 0.22, 3: 0.33, 4: MOST_WRONG}
#: Where many numbers of clusters are tried, k-means sees at most so many rows.
MOST_CLUSTERED = 10_000
#: Settings of k-means for a judgment; without a tolerance it never waits for a GPU.
KMEANS: dict[str, Any] = {"n_init": 3, "max_iter": 20, "tol": None}


class JudgingClusterer(DeepConstrainedClusterer):
    """A method that can estimate which answers are wrong and train on what each is worth."""

    #: Parameter of SpherePair: share of wrong answers; "auto" estimates it, ``None`` trusts all answers.
    wrong_answers: float | str | None = None
    #: Parameter of the other methods: whether to estimate the share of wrong answers.
    robust: bool = False

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
                "the answers of this fit were not judged: it was not asked to, all are of one kind or there "
                f"are fewer than {FEWEST_PAIRS}; fit with wrong_answers='auto' (rivals: robust=True)."
            )
        return list_suspects(self.constraints_, judgment, n)

    def _carry_over(self, known: Constraints) -> None:
        """Answers keep what they are worth, new ones count."""
        judgment, weights, pairs = self.judgment_, self.pair_weights_, self.constraints_
        if judgment is not None:
            judgment = Judgment(
                _carry_over(judgment.right, known, pairs, new=1.0),
                _carry_over(judgment.neighbors_same, known, pairs, new=0.5),
                judgment.wrong,
                _carry_over(judgment.informative, known, pairs, new=1.0).astype(bool),
            )
        self._keep(judgment, pairs, worth=_carry_over(weights, known, pairs, new=1.0).astype(np.float32))

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
        is_second = job.session.is_resumed(WEIGHED.name)
        pretrained = self._pretrained(job)
        judge = self._judge_of(job, pretrained)
        if job.session.take_finished(FIT.name):
            same = self._kept_judgment(job)
        else:
            is_over = self._train_first(job, judge)
            self._finish(job)
            found = self._found_first(judge, _last_number(job))
            judgment, same = judge.first_opinion(found.same), found.same
            if not is_over and not self._are_wrong(judgment):
                self._keep(judgment, job.pairs)
                return
            self.n_clusters_ = found.n_clusters
            job.session.kept |= {SAME: torch.tensor(same), N_CLUSTERS: torch.tensor(self.n_clusters_)}
            job.network.load_state_dict(pretrained.state_dict())
        if is_second:
            for stage in (FURTHER, DRAFT):
                job.session.take_finished(stage.name)
        else:
            judge, same = self._begin_again(job, judge, same)
        judge = judge.starting_from(same, n_rows=job.rows.n_rows, n_clusters=self.n_clusters_)
        again = replace(job, worth=judge.worth(same, 0.0))
        self._train_weighed(again, judge, same)
        self._finish(again)
        judgment = judge(self._witnessed(judge))
        self._keep(judgment, job.pairs, worth=judgment.worth)
        logger.warning("%s", judgment.wrong)

    def _begin_again(
        self, job: Job, judge: Judge, same: NDArray[np.float64]
    ) -> tuple[Judge, NDArray[np.float64]]:
        """The judge of the second training, and what the neighbors say when it begins."""
        if self._pretrain_further(job, FURTHER):
            network = copy.deepcopy(job.network).eval()
            job.session.kept |= {PRETRAINED + k: v for k, v in network.state_dict().items()}
            judge = self._judge_of(job, network)
        same = 0.5 * same + 0.5 * self._judge_before(judge)
        if self._has_time_for_draft(job):
            same = 0.5 * same + 0.5 * self._draft(job, judge, same)
            job.session.restore(job.network, PRETRAINED)
        job.session.kept[SAME] = torch.tensor(same)
        return judge, same

    def _draft(self, job: Job, judge: Judge, same: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the neighbors say after a shorter training on what the answers seem to be worth."""
        judge = judge.starting_from(same, n_rows=job.rows.n_rows, n_clusters=self.n_clusters_)
        self._train_weighed(replace(job, worth=judge.worth(same, 0.0)), judge, same, stage=DRAFT)
        network, asked = job.network.eval(), torch.from_numpy(judge.asked)
        z = map_some_rows(lambda x: self._embed(network, x), job.rows, asked, hardware=self._hardware)
        return self._ask(judge, z, 0, near=self.n_clusters_).same

    def _has_time_for_draft(self, job: Job) -> bool:
        """Whether there is time for a draft of the second training."""
        return False

    def _pretrain_further(self, job: Job, stage: Stage) -> bool:
        """Train the network more without pairs, if that pays where answers are judged; returns whether."""
        return False

    def _kept_judgment(self, job: Job) -> NDArray[np.float64]:
        """What the first training has found, of an interrupted fit that was in its second."""
        with job.session.reading():
            n_clusters = int(job.session.kept[N_CLUSTERS])
            same = job.session.kept[SAME].cpu().double().numpy()
            if n_clusters < 1 or same.shape != (len(job.pairs),) or not ((same >= 0) & (same <= 1)).all():
                raise ValueError("its judgment of the answers cannot be")
        self.n_clusters_ = n_clusters
        return same.copy()

    def _pretrained(self, job: Job) -> Any:
        """A copy of the network before it saw pairs; where a fit resumes after that, from its checkpoint."""
        network = copy.deepcopy(job.network)
        if any(job.session.is_resumed(stage.name) for stage in (FIT, FURTHER, DRAFT, WEIGHED)):
            job.session.restore(network, PRETRAINED)
        else:
            job.session.kept |= {PRETRAINED + k: v.clone() for k, v in network.state_dict().items()}
        return network.eval()

    def _are_wrong(self, judgment: Judgment) -> bool:
        return self._share_wrong != "auto" or judgment.wrong.share >= LEAST_SHARE

    @property
    def _share_wrong(self) -> float | str | None:
        return "auto" if self.robust else self.wrong_answers

    def _hold_out(self, job: Job) -> HoldOut | None:
        return train_with_hold_out(self, job, self._pretrained(job))

    def _can_judge(self, pairs: Constraints) -> bool:
        must = pairs.is_must_link[pairs.is_decided]
        return bool(self._share_wrong) and len(must) >= FEWEST_PAIRS and 0 < must.sum() < len(must)

    def _trusted_pairs(self) -> Constraints:
        """The pairs of the fit that are more likely right than wrong, weighed."""
        is_trusted = (self.pair_weights_ >= 0.5) & self.constraints_.is_decided
        return weigh_pairs(self.constraints_, self.pair_weights_)[is_trusted]

    def _is_weighed(self) -> bool:
        """Whether some answers of the fit are worth less than others."""
        return not bool((self.pair_weights_ == 1.0).all())

    def _known_worth(self, pairs: Constraints) -> NDArray[np.float32] | None:
        if not self._is_weighed():
            return None
        return _carry_over(self.pair_weights_, self.constraints_, pairs, new=1.0).astype(np.float32)

    def _keep(
        self, judgment: Judgment | None, pairs: Constraints, worth: NDArray[np.float32] | None = None
    ) -> None:
        self.judgment_ = judgment
        self.wrong_answers_: WrongAnswers | None = None if judgment is None else judgment.wrong
        self.pair_weights_ = np.ones(len(pairs), np.float32) if worth is None else worth

    def _judge_of(self, job: Job, pretrained: Any) -> Judge:
        """Neighbors of the rows in pairs before training on pairs, who will judge the answers."""
        z = torch.from_numpy(map_rows(self._view_before_pairs(pretrained), job.rows, self._hardware))
        ends, places = np.unique(np.concatenate([job.pairs.left, job.pairs.right]), return_inverse=True)
        seed, device = job.session.seed, self._hardware.device
        in_pairs = torch.from_numpy(ends)
        sample = term_rows(job.rows.n_rows, in_pairs, seed=seed, device=torch.device("cpu"))
        # A sample may hold fewer rows than there are in pairs, and each of them is asked about.
        rows = torch.from_numpy(np.union1d(sample, ends))
        lines = torch.searchsorted(rows, in_pairs)
        generator = torch_generator(seed, "witnesses", device=device)
        found = _neighbors_of(z[rows].to(device), lines.to(device), generator).cpu()
        asked, neighbors = np.unique(rows[found].numpy(), return_inverse=True)
        witnesses = Witnesses(neighbors.reshape(len(ends), -1), *np.split(places, 2))
        share = self._share_wrong
        return Judge(job.pairs, witnesses, asked, z[asked], None if isinstance(share, str) else share)

    def _judge_before(self, judge: Judge) -> NDArray[np.float64]:
        """What the neighbors say by the clusters that there are before training on pairs."""
        z = F.normalize(judge.before.to(self._hardware.device), dim=1)
        return self._ask(judge, z, 0, near=self.n_clusters_).same

    def _found_first(self, judge: Judge, near: int | None) -> Explanation:
        """What the neighbors say after the first training, whose number wrong answers may have spoiled."""
        if self.n_clusters == "auto":
            z = torch.from_numpy(self.embedding_[judge.asked]).to(self._hardware.device)
            return self._ask(judge, z, 0, near=near)
        return Explanation(self.n_clusters_, self._witnessed(judge), 0.0)

    def _witnessed(self, judge: Judge) -> NDArray[np.float64]:
        """What the neighbors say by the clusters that were found."""
        logits = self._membership_logits()
        z = torch.from_numpy(self.embedding_[judge.asked]).to(self._hardware.device)
        return judge.same(logits(z).softmax(dim=1).cpu().numpy())

    def _train_first(self, job: Job, judge: Judge) -> bool:
        """Train as always; returns whether that ended before its time because answers are wrong."""
        plan, rule = self._plan(job, FIT), self._stopping_rule(FIT)
        look = None
        if isinstance(plan.objective, SemiSupervisedObjective):

            def is_wrong(objective: SemiSupervisedObjective, n_looks: int) -> bool:
                z = objective.embed(torch.from_numpy(judge.asked))
                best = self._ask(judge, z, 0, near=_last_number(job))
                job.session.kept[N_CLUSTERS] = torch.tensor(best.n_clusters)
                found = judge.first_opinion(best.same)
                is_early = judge.share is None and found.wrong.share > INSISTENCE.get(n_looks, 0.0)
                return self._are_wrong(found) and not is_early

            look = Look(rule, max(1, int(self.max_epochs) // LOOKS), is_wrong)
            plan.objective.reweigh = look
        job.session.run_stage(
            plan,
            stage=FIT.name,
            max_epochs=self._max_epochs(job, FIT),
            stopping=rule if look is None else look,
            initialize=partial(self._initialize, job),
        )
        return look is not None and bool(look.has_ended)

    def _train_weighed(
        self, job: Job, judge: Judge, same: NDArray[np.float64], *, stage: Stage = WEIGHED
    ) -> None:
        """Train on what the answers are worth, and judge them again as the network learns."""
        plan, max_epochs = self._plan(job, stage), self._max_epochs(job, stage)
        if stage == DRAFT:
            max_epochs = math.ceil(DRAFT_SHARE * max_epochs)
        batches = plan.batches[0]

        def weigh(objective: SemiSupervisedObjective) -> None:
            batches.pairs.weight.copy_(self._weigh(PairTensors.of(job.weighed)).weight)
            objective.listen_to(PairTensors.of(job.trusted))

        if isinstance(plan.objective, SemiSupervisedObjective) and job.worth is not None:

            def ask(z: Tensor, epoch: int) -> NDArray[np.float64]:
                return self._ask(judge, z, epoch, near=self.n_clusters_).same

            plan.objective.reweigh = Reweighing(
                judge, same, job.worth, max_epochs=max_epochs, ask=ask, weigh=weigh
            )
        job.session.run_stage(
            plan,
            stage=stage.name,
            max_epochs=max_epochs,
            stopping=self._stopping_rule(stage),
            initialize=partial(self._initialize, job),
        )

    def _ask(self, judge: Judge, z: Tensor, epoch: int, *, near: int | None = None) -> Explanation:
        """What the neighbors say during training, by clusters of their embeddings (n_asked, D).

        As many as are wanted, or else as explain the answers best, at most D; the search begins at ``near``.
        """
        if self.n_clusters != "auto":
            return explain(judge, self._memberships(z, epoch, int(self.n_clusters)))
        memberships = partial(self._memberships, z, epoch, most_rows=MOST_CLUSTERED)
        return explain_best(judge, memberships, max_clusters=min(z.shape[1], len(z) - 1), near=near)

    def _memberships(
        self, z: Tensor, epoch: int, n_clusters: int, most_rows: int | None = None
    ) -> NDArray[Any]:
        """Probabilities of the clusters, (n, K), of embeddings (n, D) during training."""
        generator = torch_generator(self._seed, "judging", epoch, device=z.device)
        some = z
        if most_rows is not None and len(z) > most_rows:
            some = z[torch.randint(len(z), (most_rows,), generator=generator, device=z.device)]
        centers = F.normalize(kmeans(some, n_clusters, generator=generator, **KMEANS), dim=1)
        similarity = z @ centers.T
        variance = (z - centers[similarity.argmax(dim=1)]).square().mean().clamp(min=1e-12)
        memberships: NDArray[Any] = (similarity / variance).softmax(dim=1).cpu().numpy()
        return memberships

    def _view_before_pairs(self, pretrained: Any) -> Callable[[Tensor], Tensor]:
        """From rows to vectors in which rows that are alike are near each other."""
        return lambda x: self._embed(pretrained, x)

    def _weigh(self, pairs: PairTensors) -> PairTensors:
        """The pairs with must-links weighed against cannot-links; as they are by default."""
        return pairs


def _last_number(job: Job) -> int | None:
    """The number of clusters that explained the answers best when they were last judged."""
    return int(job.session.kept[N_CLUSTERS]) if N_CLUSTERS in job.session.kept else None


def _neighbors_of(x: Tensor, lines: Tensor, generator: torch.Generator) -> Tensor:
    """Neighbors, (m, k), of some rows of ``x``: of these alone where that is less work than to search all."""
    count = min(N_WITNESSES, len(x) - 1)
    if len(lines) * len(x) > MOST_COMPARED:
        return nearest_neighbors(x, count, generator=generator)[lines]
    half_square = x.square().sum(dim=1) / 2
    found = []
    for chunk in torch.split(lines, max(1, COMPARED_AT_ONCE // len(x))):
        score = torch.addmm(-half_square, x[chunk], x.T).scatter_(1, chunk[:, None], -torch.inf)
        found.append(score.topk(count, dim=1).indices)
    return torch.cat(found)


def _carry_over(values: NDArray[Any], old: Constraints, now: Constraints, *, new: float) -> NDArray[Any]:
    """Values of old pairs for those of now, (len(now),), with ``new`` where a pair is new."""
    place = positions_among(now, old)
    return np.where(place < 0, new, values[place]) if len(values) else np.full(len(now), new)

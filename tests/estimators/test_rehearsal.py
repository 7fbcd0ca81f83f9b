"""The rehearsal of training on pairs leaves no trace but what it loads."""

import copy
from contextlib import nullcontext
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from spherepair import Constraints, SpherePair
from spherepair.estimators import rehearsal
from spherepair.estimators.base import Job
from spherepair.estimators.pseudo_pairs import PseudoPairs
from spherepair.training.hardware import Hardware
from spherepair.training.rows import ResidentRows
from spherepair.training.scaling import Scaling
from spherepair.training.session import Session

N_ROWS = 600


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(rehearsal, "N_ROWS", N_ROWS)
    monkeypatch.setattr(rehearsal, "N_ENDS", 80)
    monkeypatch.setattr(rehearsal, "_rehearsed", set())


def make_job(*, precision="mixed", n_rows=N_ROWS + 10, must_link=((0, 1),), **options):
    estimator = SpherePair(3, hidden_dims=(16,), random_state=0, **options)
    estimator._hardware = Hardware(torch.device("cpu"), precision)
    network = estimator._build_network(4, 5, 0)
    rows = ResidentRows(torch.rand(n_rows, 4, generator=torch.Generator().manual_seed(0)), Scaling.identity())
    pairs = Constraints.from_pairs(must_link=np.array(must_link, dtype=np.int64).reshape(-1, 2))
    return estimator, Job(rows, pairs, network, Session(network, estimator._hardware, 0))


class Stream:
    def __init__(self, *args):
        pass

    wait_stream = synchronize = __init__


@pytest.fixture
def a_gpu(monkeypatch):
    """The processor in the part of a GPU."""
    pytest.importorskip("triton", reason="Triton comes for Linux only")
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())


def test_it_goes_as_far_as_the_pseudo_pairs_and_changes_nothing(monkeypatch):
    estimator, job = make_job()
    looks = []
    see = PseudoPairs.on_epoch_start
    monkeypatch.setattr(
        PseudoPairs,
        "on_epoch_start",
        lambda self, epoch, embed: (looks.append(epoch), see(self, epoch, embed)),
    )
    before = copy.deepcopy(job.network.state_dict()), copy.deepcopy(estimator.get_params())
    random = torch.random.get_rng_state()
    part = rehearsal.excerpt(job)
    assert part.session.hardware.is_shared
    rehearsal.play(estimator, part, Event())
    assert looks == list(range(11))
    assert part.session.history == job.session.history == []
    assert all(torch.equal(before[0][name], tensor) for name, tensor in job.network.state_dict().items())
    assert not all(torch.equal(before[0][name], tensor) for name, tensor in part.network.state_dict().items())
    assert str(estimator.get_params()) == str(before[1])
    assert torch.equal(torch.random.get_rng_state(), random)


def test_it_ends_with_what_it_runs_beside():
    estimator, job = make_job()
    part, is_over = rehearsal.excerpt(job), Event()
    before = copy.deepcopy(part.network.state_dict())
    is_over.set()
    rehearsal.play(estimator, part, is_over)
    assert all(torch.equal(before[name], tensor) for name, tensor in part.network.state_dict().items())


def test_once_a_process_while_the_body_runs(a_gpu, monkeypatch):
    played, is_here = [], Event()

    def play(estimator, part, is_over):
        is_here.set()
        assert is_over.wait(10)
        played.append(part)

    monkeypatch.setattr(rehearsal, "play", play)
    estimator, job = make_job()
    for turn in range(2):
        with rehearsal.rehearsing(estimator, job):
            assert is_here.wait(10)
            assert len(played) == turn
        (part,) = played
    assert part.network is not job.network
    assert part.rows.n_rows == N_ROWS


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "float32"},
        {"n_rows": N_ROWS - 1},
        {"most": N_ROWS * 4},
        {"encoder": torch.nn.Linear(4, 5)},
        {"pretraining": None},
        {"pretraining": "stacked"},
        {"must_link": ()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_not_where_it_is_of_no_use(changes, a_gpu, monkeypatch):
    changes = dict(changes)
    monkeypatch.setattr(rehearsal, "MOST_NUMBERS", changes.pop("most", 2**25))
    monkeypatch.setattr(rehearsal, "play", lambda *args: pytest.fail("rehearsed"))
    monkeypatch.setattr(rehearsal, "excerpt", lambda *args: pytest.fail("rehearsed"))
    with rehearsal.rehearsing(*make_job(**changes)):
        pass


@pytest.mark.parametrize("what", ["play", "excerpt"])
def test_a_fit_goes_on_when_its_rehearsal_fails(what, a_gpu, monkeypatch, caplog):
    def fail(*args):
        raise RuntimeError("no memory left")

    monkeypatch.setattr(rehearsal, what, fail)
    with caplog.at_level("INFO", logger="spherepair"), rehearsal.rehearsing(*make_job()):
        done = True
    assert done
    assert "no memory left" in caplog.text


def test_a_shared_device_is_left_alone(monkeypatch):
    matmul = SimpleNamespace(allow_tf32=False)
    monkeypatch.setattr(torch.backends.cuda, "matmul", matmul)
    with Hardware(torch.device("cuda"), "mixed", is_shared=True).matrix_products():
        assert not matmul.allow_tf32
    with Hardware(torch.device("cuda"), "mixed").matrix_products():
        assert matmul.allow_tf32

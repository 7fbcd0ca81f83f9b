"""Captured steps: each is done once, and what cannot be captured goes on eagerly, with the same numbers."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from spherepair.accel import capture
from spherepair.accel.capture import WARM_UP_STEPS, CapturedStep, CapturedValue, steps_per_launch


class Gpu:
    """The CPU in the role of a GPU: while it captures, work is noted and not done."""

    def __init__(self):
        self.noted = None
        self.n_eager = self.n_captures = 0
        self.has_spare_memory = False

    def do(self, work):
        if self.noted is None:
            self.n_eager += 1
            work()
        else:
            self.noted.append(work)

    def empty_cache(self):
        self.has_spare_memory = False


class Graph:
    def __init__(self, gpu):
        self.gpu, self.work = gpu, []

    def capture_begin(self, capture_error_mode):
        self.gpu.noted, self.gpu.n_captures = self.work, self.gpu.n_captures + 1

    def capture_end(self):
        self.gpu.noted = None

    def register_generator_state(self, generator):
        generator.state = "of the graph"

    def replay(self):
        assert self.work, "an empty graph, or one that was given back"
        for work in self.work:
            work()

    def reset(self):
        self.work = []


class Generator:
    """Of a GPU: its state is taken over by a capture."""

    device, state = None, 7

    def get_state(self):
        return self.state

    def graphsafe_get_state(self):
        return self.state

    def set_state(self, state):
        self.state = state

    graphsafe_set_state = set_state


@pytest.fixture
def gpu(monkeypatch):
    stream = SimpleNamespace(wait_stream=lambda other: None)
    gpu = Gpu()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Graph(gpu))
    monkeypatch.setattr(torch.cuda, "empty_cache", gpu.empty_cache)
    monkeypatch.setattr(capture.torch, "Generator", lambda device: Generator())
    return gpu


def counting(gpu, *, fails=False):
    """A step that moves a weight, so that neither one too many nor one too few goes unseen."""
    weight = torch.zeros((), dtype=torch.float64)

    def step():
        if fails and gpu.noted is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        gpu.do(lambda: weight.mul_(0.9).add_(1.0))

    return step, weight


def expected(n_steps):
    weight = torch.zeros((), dtype=torch.float64)
    for _ in range(n_steps):
        weight.mul_(0.9).add_(1.0)
    return weight


@pytest.mark.parametrize("n_steps", [1, 2, 3, 20, 42, 43, 235])
@pytest.mark.parametrize("per_graph", [1, 2, 8, 32])
def test_every_step_of_every_epoch_is_done_once(gpu, n_steps, per_graph):
    step, weight = counting(gpu)
    captured = CapturedStep(step, Generator(), per_graph)
    for epoch in range(4):
        captured.run(n_steps)
        assert torch.equal(weight, expected((epoch + 1) * n_steps))
    assert gpu.n_eager == min(4 * n_steps, WARM_UP_STEPS)
    assert gpu.n_captures <= 2  # of as many steps as go into a graph, and of one


def test_what_cannot_be_captured_goes_on_eagerly_with_the_same_numbers(gpu, caplog):
    step, weight = counting(gpu, fails=True)
    generator = Generator()
    captured = CapturedStep(step, generator, 4)
    caplog.set_level("INFO")
    for _ in range(3):
        captured.run(10)
    assert torch.equal(weight, expected(30))
    assert gpu.n_eager == 30
    assert gpu.n_captures == 1  # it is not tried again
    assert generator.state == 7
    assert "cannot be captured" in caplog.text


def test_where_memory_is_short_spare_memory_is_given_back_and_all_tried_again(gpu):
    """A capture takes nothing from the memory that torch keeps for later."""
    gpu.has_spare_memory = True
    step, weight = counting(gpu)

    def hungry():
        if gpu.noted is not None and gpu.has_spare_memory:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        step()

    generator = Generator()
    captured = CapturedStep(hungry, generator, 4)
    captured.run(13)
    assert torch.equal(weight, expected(13))
    assert gpu.n_eager == WARM_UP_STEPS
    assert gpu.n_captures == 2
    assert generator.state == "of the graph"


def test_graphs_are_given_back(gpu):
    step, weight = counting(gpu)
    captured = CapturedStep(step, Generator(), 4)
    captured.run(12)
    graphs = list(captured._graphs.values())
    captured.discard()
    assert graphs
    assert all(graph.work == [] for graph in graphs)
    captured.run(12)  # captured anew
    assert torch.equal(weight, expected(24))


@pytest.mark.parametrize("fails", [False, True])
def test_a_value_is_captured_when_it_is_asked_for_again(gpu, fails):
    source, result = torch.zeros(()), torch.zeros(())

    def value():
        if fails and gpu.noted is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        gpu.do(lambda: result.copy_(2 * source))
        return result

    captured = CapturedValue(value, torch.device("cpu"))
    for number in range(5):
        source.fill_(number)
        assert captured().item() == 2 * number
    assert gpu.n_eager == (5 if fails else 1)
    captured.discard()
    source.fill_(9)
    assert captured().item() == 18


@pytest.mark.parametrize(("n_steps", "most"), [(1, 1), (42, 1), (42, 2), (43, 2), (235, 32), (15, 32)])
def test_graphs_leave_few_steps_over(n_steps, most):
    size = steps_per_launch(n_steps, most)
    assert 1 <= size <= most
    assert n_steps % size <= 1

"""Capturing a training step as a CUDA graph: launched as one, it no longer waits for Python."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

logger = logging.getLogger(__name__)

#: Steps that run eagerly first: libraries and optimiser states must be set up before a capture.
WARM_UP_STEPS = 3
#: Steps in one graph: between two launches the GPU waits as long as some small kernels take.
STEPS_PER_GRAPH = 8


class CapturedStep:
    """A step that runs eagerly a few times, then as a captured graph, with the same numbers.

    Where a capture fails (an operation of a user's encoder that cannot be captured), the step goes
    on eagerly.

    Parameters
    ----------
    step : callable without arguments
        Reads its batch from buffers with fixed addresses and updates parameters in place.
    generator : torch.Generator
        The source of the noise inside the step.
    """

    def __init__(self, step: Callable[[], None], generator: torch.Generator) -> None:
        self._step, self._generator = step, generator
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._stream = torch.cuda.Stream(generator.device)  # type: ignore[no-untyped-call]
        self._n_warm = 0
        self._gave_up = False

    def discard(self) -> None:
        """Forget the graph: something it holds as a constant has changed, or training is over.

        Said aloud rather than left to the garbage collector, which might free this graph while
        another one is being captured; that would break the capture.
        """
        for graph in self._graphs.values():
            graph.reset()
        self._graphs = {}

    def run(self, n_steps: int) -> None:
        """Run that many steps."""
        done = 0
        while done < n_steps and (self._gave_up or self._n_warm < WARM_UP_STEPS):
            self._run_eagerly()
            done += 1
        while done < n_steps:
            size = STEPS_PER_GRAPH if n_steps - done >= STEPS_PER_GRAPH else 1
            graph = self._graph(size)
            if graph is None:
                self._run_eagerly()
                done += 1
            else:
                graph.replay()
                done += size

    def _run_eagerly(self) -> None:
        # Capture needs the warm-up on a stream of its own; the results are those of real steps.
        self._n_warm += 1
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            self._step()
        current.wait_stream(self._stream)

    def _graph(self, n_steps: int) -> torch.cuda.CUDAGraph | None:
        """The graph of that many steps, captured when it is first asked for."""
        if n_steps not in self._graphs and not self._gave_up:
            self._capture(n_steps)
        return self._graphs.get(n_steps)

    def _capture(self, n_steps: int) -> None:
        before = self._generator.get_state()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        try:
            with torch.cuda.graph(graph, stream=self._stream):
                for _ in range(n_steps):
                    self._step()
        except RuntimeError as error:
            logger.info("the training step cannot be captured as a CUDA graph (%s); running eagerly", error)
            self._gave_up = True
            self._free_generator(before)
            return
        self._graphs[n_steps] = graph

    def _free_generator(self, before: torch.Tensor) -> None:
        """After a failed capture the generator still believes to be in one; put it back where it was."""
        fresh = torch.Generator(self._generator.device)
        fresh.set_state(before)
        self._generator.graphsafe_set_state(fresh.graphsafe_get_state())

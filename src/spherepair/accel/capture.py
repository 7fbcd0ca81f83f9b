"""CUDA graphs: a captured training step is launched as one and no longer waits for Python."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

logger = logging.getLogger(__name__)

#: Steps that run eagerly first: libraries must be set up before a capture.
WARM_UP_STEPS = 1
#: Other threads may use the GPU during a capture, as long as they do not wait for all of it.
CAPTURE_MODE = "thread_local"


class CapturedStep:
    """A step that runs eagerly once, then as a captured graph, with the same numbers.

    Where the capture fails (an operation of a user's encoder that cannot be captured), the step goes on
    eagerly.

    Parameters
    ----------
    step : callable without arguments
        Reads its batch from buffers with fixed addresses and updates parameters in place.
    generator : torch.Generator
        The source of the noise inside the step.
    steps_per_graph : int
        Most steps in one graph. Between two launches the GPU waits as long as some small kernels take.
    """

    def __init__(self, step: Callable[[], None], generator: torch.Generator, steps_per_graph: int) -> None:
        self._step, self._generator = step, generator
        self._steps_per_graph = steps_per_graph
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._stream = torch.cuda.Stream(generator.device)  # type: ignore[no-untyped-call]
        self._n_warm = 0
        self._gave_up = False

    def run(self, n_steps: int) -> None:
        """Run that many steps."""
        done, size = 0, steps_per_launch(n_steps, self._steps_per_graph)
        while done < n_steps and (self._gave_up or self._n_warm < WARM_UP_STEPS):
            self._run_eagerly()
            done += 1
        while done < n_steps:
            graph = self._graph(size := size if n_steps - done >= size else 1)
            if graph is None:
                self._run_eagerly()
                done += 1
            else:
                graph.replay()
                done += size

    def discard(self) -> None:
        """Free the graphs.

        Left to the garbage collector, a graph might be freed while another one is captured, which would break
        that capture.
        """
        for graph in self._graphs.values():
            graph.reset()
        self._graphs = {}

    def _run_eagerly(self) -> None:
        # A capture needs its warm-up on a stream of its own; the results are those of real steps.
        self._n_warm += 1
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            self._step()
        current.wait_stream(self._stream)

    def _graph(self, n_steps: int) -> torch.cuda.CUDAGraph | None:
        """The graph of that many steps, captured when it is first needed."""
        if n_steps not in self._graphs and not self._gave_up:
            self._capture(n_steps)
        return self._graphs.get(n_steps)

    def _capture(self, n_steps: int) -> None:
        def steps() -> None:
            for _ in range(n_steps):
                self._step()

        try:
            self._graphs[n_steps] = record_graph(steps, self._stream, self._generator)
        except RuntimeError as error:
            logger.info("the training step cannot be captured as a CUDA graph (%s); running eagerly", error)
            self._gave_up = True


class CapturedValue:
    """A value that is computed repeatedly: eagerly the first time, then as a captured graph.

    Parameters
    ----------
    function : callable without arguments
        Reads what it needs from fixed addresses and draws no random numbers.
    device : torch.device
    """

    def __init__(self, function: Callable[[], torch.Tensor], device: torch.device) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: torch.Tensor | None = None
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._n_calls = 0

    def __call__(self) -> torch.Tensor:
        """The present value."""
        self._n_calls += 1
        if self._n_calls == 2:
            self._capture()
        if self._graph is None or self._result is None:
            return self._run_eagerly()
        self._graph.replay()
        return self._result

    def discard(self) -> None:
        """Free the graph."""
        if self._graph is not None:
            self._graph.reset()
        self._graph = self._result = None

    def _run_eagerly(self) -> torch.Tensor:
        # On the stream of the capture, whose libraries are set up by it.
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            value = self._function()
        current.wait_stream(self._stream)
        return value

    def _capture(self) -> None:
        def compute() -> None:
            self._result = self._function()

        try:
            self._graph = record_graph(compute, self._stream)
        except RuntimeError as error:
            logger.info("the objective cannot be captured as a CUDA graph (%s); computing it eagerly", error)


def record_graph(
    work: Callable[[], None], stream: torch.cuda.Stream, generator: torch.Generator | None = None
) -> torch.cuda.CUDAGraph:
    """A graph of what ``work`` would do, without doing it.

    ``torch.cuda.graph`` would wait for the GPU and free all cached memory first. A capture cannot use cached
    memory; where too little is left beside it, it is freed and the capture tried again.

    Parameters
    ----------
    work : callable without arguments
    stream : torch.cuda.Stream
        On which ``work`` has run before.
    generator : torch.Generator, optional
        The source of the noise in ``work``; restored where the capture fails.
    """
    try:
        return _record(work, stream, generator)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return _record(work, stream, generator)


def _record(
    work: Callable[[], None], stream: torch.cuda.Stream, generator: torch.Generator | None
) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        before = generator.get_state()
        graph.register_generator_state(generator)
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode=CAPTURE_MODE)
            try:
                work()
            finally:
                graph.capture_end()
    except RuntimeError:
        if generator is not None:  # its state still belongs to the capture that failed
            fresh = torch.Generator(generator.device)
            fresh.set_state(before)
            generator.graphsafe_set_state(fresh.graphsafe_get_state())
        raise
    return graph


def steps_per_launch(n_steps: int, most: int) -> int:
    """Steps in one graph, so that few steps of an epoch are left over to be launched alone.

    Examples
    --------
    >>> steps_per_launch(235, 32)  # nine graphs of 26 steps and one step
    26
    >>> steps_per_launch(15, 32)
    15
    """
    if n_steps <= most:
        return n_steps
    return min(range(max(1, most // 2), most + 1), key=lambda size: (n_steps % size, -size))

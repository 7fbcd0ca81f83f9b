"""What a fit runs on: a device, its precision, the way of rows to it, and named streams of random numbers.

Every draw in the package comes from one seed, none from global state. A stream is a pure function of (seed,
names), for instance ("pairs", epoch 7). So an interrupted fit draws the same numbers when it is resumed,
without any saved state.
"""

from __future__ import annotations

import functools
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn

from spherepair.errors import InvalidDataError, InvalidParameterError, quoted

PRECISIONS = ("auto", "float32", "tf32", "bfloat16")
#: Bytes of a block whose release makes glibc keep up to twice as much of the memory that is freed later.
KEPT_BLOCK = 31 * 2**20
#: Page-locked buffers through which rows pass on their way to a GPU, and the size of one.
STAGING_BUFFERS, STAGING_BYTES = 4, 2**24
#: A weight in training: itself, its gradient and two moments, each four bytes.
BYTES_PER_WEIGHT = 16


@dataclass(frozen=True)
class Hardware:
    """A device and the precision of matrix products on it; losses are always in float32."""

    device: torch.device
    precision: str

    @property
    def is_cuda(self) -> bool:
        """Whether the device is an NVIDIA (or ROCm) GPU."""
        return self.device.type == "cuda"

    def autocast(self) -> torch.autocast:
        """For the forward pass: matrix products in bfloat16 where that was chosen."""
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.precision in ("bfloat16", "mixed")
        )

    def current(self) -> AbstractContextManager[None]:
        """Make this GPU the one that streams and events refer to; nothing on other devices."""
        return torch.cuda.device(self.device) if self.is_cuda else nullcontext()

    def keep_freed_memory(self) -> None:
        """Have glibc keep the memory of a training step for the next one.

        Otherwise it goes back to the system, which hands it out again page by page. Freeing one block of this
        size raises glibc's threshold.
        """
        if not self.is_cuda:
            torch.empty(KEPT_BLOCK, dtype=torch.uint8, device="cpu")

    @contextmanager
    def matrix_products(self) -> Iterator[None]:
        """For forward and backward pass: set torch's process-wide switches, and restore them afterwards.

        On a GPU the switch allows TF32 unless precision is float32. On a CPU without bfloat16 instructions it
        turns oneDNN off: oneDNN would fail there, and torch would then do without it for the rest of the
        process, which changes fits in float32 as well.
        """
        switches: Any
        if self.is_cuda:
            switches, name, wanted = torch.backends.cuda.matmul, "allow_tf32", self.precision != "float32"
        elif self.precision == "bfloat16" and lacks_bfloat16():
            switches, name, wanted = torch.backends.mkldnn, "enabled", False
        else:
            yield
            return
        before = getattr(switches, name)
        setattr(switches, name, wanted)
        try:
            yield
        finally:
            setattr(switches, name, before)


@dataclass(frozen=True)
class Effort:
    """Sizes of a fit that follow the table where they are not given.

    Parameters
    ----------
    hidden_dims : tuple of int
        Hidden layers of the encoder.
    batch_size : int
        Pairs per step.
    epoch_steps, pretraining_steps : int
        Least number of steps in an epoch on pairs, and in the whole of joint pretraining.
    """

    hidden_dims: tuple[int, ...] = (500, 500, 2000)
    batch_size: int = 256
    epoch_steps: int = 20
    pretraining_steps: int = 1500


#: Parameters of a network whose steps are too short for several threads.
SMALL_NETWORK = 2**18

#: What a CPU does for tables with fewer rows than the number before it.
CPU_EFFORTS = ((1000, Effort((256, 128), 64, 10, 300)), (20_000, Effort((256, 128), 128, 20, 750)))


def choose_effort(n_rows: int, hardware: Hardware) -> Effort:
    """How large a network and how many steps a table deserves.

    On a CPU a small table takes seconds this way and minutes with the full sizes, for the same accuracy. A
    GPU does the full sizes in seconds.

    Examples
    --------
    >>> cpu = choose_hardware("cpu")
    >>> choose_effort(1500, cpu).hidden_dims, choose_effort(60_000, cpu).hidden_dims
    ((256, 128), (500, 500, 2000))
    """
    if not hardware.is_cuda:
        for n_rows_below, effort in CPU_EFFORTS:
            if n_rows < n_rows_below:
                return effort
    return Effort()


def limit_threads(network: nn.Module, hardware: Hardware) -> AbstractContextManager[Any]:
    """One CPU thread for a small network, until the context ends; as many as torch has for others.

    A step is then so short that threads mostly wait for each other. Where other programs use the cores, too,
    two threads took ten times as long as one.
    """
    parameters = list(network.parameters())
    is_small = sum(p.numel() for p in parameters) < SMALL_NETWORK and all(p.ndim <= 2 for p in parameters)
    if hardware.is_cuda or not is_small:
        return nullcontext()
    limits: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="openmp")
    return limits


@functools.cache
def _thread_pools() -> ThreadpoolController:
    """Looked for once: to go through all libraries of the process takes milliseconds, as long as an epoch."""
    return ThreadpoolController()


def refuse_without_memory(n_weights: int, hardware: Hardware) -> None:
    """Refuse a network so wide that no training of it fits into the memory of the machine, or of its GPU."""
    needed, there = n_weights * BYTES_PER_WEIGHT, _memory(hardware)
    if needed > there:
        raise InvalidDataError(
            f"a network for so many columns has {n_weights:,} weights, and training it takes "
            f"{needed / 2**30:.1f} GiB, where there are {there / 2**30:.1f}; give fewer columns, for example "
            "by TruncatedSVD of scikit-learn, or smaller hidden_dims."
        )


def _memory(hardware: Hardware) -> float:
    """Bytes of memory of the GPU or the machine, used or not; endless where they are not known."""
    if hardware.is_cuda:
        return float(torch.cuda.get_device_properties(hardware.device).total_memory)
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # Windows
        return math.inf


def choose_hardware(device: str | torch.device = "auto", precision: str = "auto") -> Hardware:
    """Resolve ``"auto"`` for this machine.

    ``device="auto"`` takes a CUDA GPU when there is one, else the CPU. ``precision="auto"`` takes bfloat16 on
    a CPU that multiplies it in hardware (AMX), else float32; on a GPU it is ``"mixed"``: bfloat16 under
    autocast and in our own kernels, TF32 for the rest.

    Examples
    --------
    >>> choose_hardware("cpu", "float32")
    Hardware(device=device(type='cpu'), precision='float32')
    """
    if precision not in PRECISIONS:
        raise InvalidParameterError(
            f"precision must be one of {PRECISIONS}, got {quoted(precision)} instead."
        )
    chosen = _device(device)
    if precision == "auto":
        precision = _best_precision(chosen)
    return Hardware(chosen, precision)


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidParameterError(
            f"device must be 'auto', 'cpu', 'cuda' or another torch device, got {quoted(device)} instead."
        ) from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InvalidParameterError(
            f"device={quoted(str(device))} was asked for, but torch sees no CUDA GPU; use device='auto'."
        )
    if chosen.type != "cpu":
        _refuse_unusable(chosen)
    return chosen


def _refuse_unusable(device: torch.device) -> None:
    """Refuse a device that this torch cannot compute on, such as "meta", which holds no numbers."""
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        raise InvalidParameterError(
            f"device={quoted(str(device))} cannot be used with this torch ({quoted(error)}); use "
            "device='auto'."
        ) from error


def _best_precision(device: torch.device) -> str:
    if device.type == "cuda":
        # Older GPUs have no units for bfloat16 or TF32; there TF32 means float32.
        return "mixed" if torch.cuda.get_device_capability(device) >= (8, 0) else "tf32"
    if device.type == "cpu" and has_amx():
        return "bfloat16"
    return "float32"


def has_amx() -> bool:
    """Whether this CPU multiplies bfloat16 matrices in hardware (Intel AMX)."""
    probe = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(probe()) if probe is not None else False


def lacks_bfloat16() -> bool:
    """Whether torch uses oneDNN and this CPU lacks the instructions that oneDNN needs for bfloat16."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def to_device(rows: Any, device: torch.device) -> Tensor:
    """A block of rows, an array or a sparse matrix, as a dense tensor on the device."""
    dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    is_cuda = device.type == "cuda"
    if min(dense.strides) < 0 or not (dense.flags.writeable or is_cuda):
        dense = dense.copy()  # torch shares memory only with arrays it could write to
    dense = dense if is_torch_type(dense.dtype) else dense.astype(np.float64)
    tensor = torch.from_numpy(_as_writable_view(dense))
    if device.type == "mps" and tensor.dtype == torch.float64:
        tensor = tensor.float()  # that device has no float64
    if not is_cuda:
        return tensor.to(device)
    with _staging(device) as staging:
        return staging.send(tensor)


def is_torch_type(dtype: np.dtype[Any]) -> bool:
    """Whether torch has this type of numbers."""
    return dtype.isnative and dtype.name in {
        "float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool",
    }  # fmt: skip


def _as_writable_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as one that torch accepts, without a copy even if it is read-only; it must only be read."""
    if array.flags.writeable:
        return array
    memory = array.__array_interface__ | {"data": (array.ctypes.data, False)}
    return np.asarray(SimpleNamespace(__array_interface__=memory, owner=array))


class _Staging:
    """Page-locked memory on the way to a GPU: filled by all cores, sent while the next piece is filled.

    Pieces are so small that they are still in the CPU's cache when the GPU fetches them.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers = [torch.empty(0, dtype=torch.uint8)] * STAGING_BUFFERS
        self._sent = [torch.cuda.Event() for _ in range(STAGING_BUFFERS)]  # type: ignore[no-untyped-call]
        self._turn = 0

    def send(self, tensor: Tensor) -> Tensor:
        """The tensor on the GPU; its copies are queued, not waited for."""
        received = torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device)
        n_rows = max(1, STAGING_BYTES // max(1, tensor[:1].nbytes))
        for piece, target in zip(torch.split(tensor, n_rows), torch.split(received, n_rows), strict=True):
            target.copy_(self._filled(piece), non_blocking=True)
            self._sent[self._turn].record(torch.cuda.current_stream(self._device))
        return received

    def _filled(self, piece: Tensor) -> Tensor:
        """The piece in the buffer whose turn it is, once what was in it is on the GPU."""
        self._turn = (self._turn + 1) % STAGING_BUFFERS
        self._sent[self._turn].synchronize()
        buffer = self._buffers[self._turn]
        if buffer.numel() < piece.nbytes:
            buffer = _page_locked(piece.nbytes)
            if piece.nbytes <= STAGING_BYTES:  # a row may be larger; its buffer is freed
                self._buffers[self._turn] = buffer
        return buffer[: piece.nbytes].view(piece.dtype).view(piece.shape).copy_(piece)


#: Buffers for the next transfer to each GPU: locking pages takes longer than sending what they hold. torch
#: caches page-locked memory as well, but drops it with every captured CUDA graph.
_spare_staging: dict[int, list[_Staging]] = {}


@contextmanager
def _staging(device: torch.device) -> Iterator[_Staging]:
    """The spare buffers of a GPU, or new ones while another thread uses those."""
    gpu = torch.cuda.current_device() if device.index is None else device.index
    spare = _spare_staging.setdefault(gpu, [])
    try:
        staging = spare.pop()
    except IndexError:
        staging = _Staging(torch.device("cuda", gpu))
    yield staging  # not used again after an error, when it is unknown what was sent
    if not spare:
        spare.append(staging)


def _page_locked(n_bytes: int) -> Tensor:
    return torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)


def resolve_seed(random_state: int | np.random.RandomState | None) -> int:
    """One 31-bit seed from whatever scikit-learn accepts as ``random_state``.

    Examples
    --------
    >>> resolve_seed(7) == resolve_seed(7)
    True
    """
    return int(check_random_state(random_state).randint(0, 2**31 - 1))


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream of that name.

    Examples
    --------
    >>> derive_seed(0, "pairs", 1) == derive_seed(0, "pairs", 1)
    True
    >>> derive_seed(0, "pairs", 1) == derive_seed(0, "pairs", 2)
    False
    """
    words = [zlib.crc32(name.encode()) if isinstance(name, str) else name for name in names]
    state = np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)
    return int(state[0] >> 1)


def torch_generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator at the start of the stream of that name."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *names))

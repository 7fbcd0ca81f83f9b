"""Which device to use, and in which precision its matrix products run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from spherepair.errors import InvalidParameterError

PRECISIONS = ("auto", "float32", "tf32", "bfloat16")


@dataclass(frozen=True)
class Hardware:
    """A device and the precision of matrix products on it; losses are always in float32.

    ``is_shared`` says that another thread trains on it at the same time: this one then touches no switch of
    the whole process and captures nothing.
    """

    device: torch.device
    precision: str
    is_shared: bool = field(default=False, repr=False)

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
        """Makes this GPU the one that streams and events refer to; nothing on other devices."""
        return torch.cuda.device(self.device) if self.is_cuda else nullcontext()

    @contextmanager
    def matrix_products(self) -> Iterator[None]:
        """For forward and backward alike: process-wide switches as this hardware wants them, then put back.

        They are TF32 on a GPU, where that was chosen, and no oneDNN for bfloat16 on a processor without it:
        oneDNN fails there, and torch goes without it from then on, which changes fits in float32 as well.
        """
        switches: Any
        if self.is_shared:
            yield
            return
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


def choose_hardware(device: str | torch.device = "auto", precision: str = "auto") -> Hardware:
    """Resolve ``"auto"`` for this machine.

    ``device="auto"`` takes a CUDA GPU when there is one, else the processor. ``precision="auto"``
    takes bfloat16 where the processor multiplies it in hardware (AMX), else float32; on a GPU it is
    ``"mixed"``: bfloat16 under autocast and in kernels of our own, TF32 for what is left in float32.

    Examples
    --------
    >>> choose_hardware("cpu", "float32")
    Hardware(device=device(type='cpu'), precision='float32')
    """
    if precision not in PRECISIONS:
        raise InvalidParameterError(f"precision must be one of {PRECISIONS}, got {precision!r} instead.")
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
            f"device must be 'auto', 'cpu', 'cuda' or another torch device, got {device!r} instead."
        ) from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InvalidParameterError(
            f"device={str(device)!r} was asked for, but torch sees no CUDA GPU; use device='auto'."
        )
    return chosen


def _best_precision(device: torch.device) -> str:
    if device.type == "cuda":
        # Older GPUs have no units for bfloat16 (nor for TF32, which they then take for float32).
        return "mixed" if torch.cuda.get_device_capability(device) >= (8, 0) else "tf32"
    if device.type == "cpu" and has_amx():
        return "bfloat16"
    return "float32"


def has_amx() -> bool:
    """Whether this processor multiplies bfloat16 matrices in hardware (Intel AMX)."""
    probe = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(probe()) if probe is not None else False


def lacks_bfloat16() -> bool:
    """Whether torch has oneDNN, and this processor no instructions that it needs for bfloat16."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()

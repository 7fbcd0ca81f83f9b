"""torch's compiler for the small operations of a loss, where training is long enough to wait for it.

A loss on a hundred rows is dozens of operations of a few microseconds each, and a GPU spends those on
starting kernels. The compiler makes few kernels of them, after ten seconds or more, and what it makes can
be captured as a CUDA graph like anything else.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

logger = logging.getLogger(__name__)

#: Steps of a training that are worth waiting for the compiler.
WORTH_COMPILING = 50_000
#: Shapes for which a process may compile a function before torch refuses: every data set has its own.
MOST_SHAPES = 256

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function in few kernels; the function itself where it cannot be compiled.

    Parameters
    ----------
    function : callable
        Of tensors whose shapes stay the same.
    """
    used: Callable[P, T] = torch.compile(function, fullgraph=True, dynamic=False)
    settings = torch._dynamo.config
    limit = "recompile_limit" if hasattr(settings, "recompile_limit") else "cache_size_limit"

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal used
        try:
            with warnings.catch_warnings(), settings.patch({limit: MOST_SHAPES}):
                warnings.simplefilter("ignore")  # the compiler's own, about how it looks at tensors
                return used(*args, **kwargs)
        except Exception as error:  # its compilers raise what they raise
            if used is function:
                raise
            logger.info("%s cannot be compiled here (%s); running it as it is", function, error)
            used = function
            return function(*args, **kwargs)

    return call

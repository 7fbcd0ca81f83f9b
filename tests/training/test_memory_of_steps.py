"""Steps on a CPU reuse the memory of the one before instead of asking the system for pages again."""

import os
import platform
import subprocess
import sys

import pytest

PAGES_ASKED_FOR = """
import resource
import spherepair
import numpy as np
from spherepair.training.pretraining import JointPretraining

asked = []
spherepair.SpherePair(
    2,
    pretraining=JointPretraining(epochs=4, min_steps=1, batch_size=512),
    max_epochs=1,
    device="cpu",
    random_state=0,
    progress=lambda state: asked.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt),
).fit(
    np.random.default_rng(0).random((2048, 784), dtype=np.float32),
    constraints=spherepair.Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(0, 2)]),
)
print((asked[3] - asked[0]) / (3 * 4))
"""


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "aarch64"), reason="torch has mimalloc on ARM alone"
)
def test_a_step_asks_for_hardly_any_page():
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PAGES_ASKED_FOR],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"MIMALLOC_PURGE_DELAY": "1000"},  # as the command line sets it
    )
    assert float(answer.stdout) < 300  # 8,600 otherwise

"""Flower's own simulation. Slow: Ray takes long to start, and 680 MB to install (flwr[simulation])."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")
pytest.importorskip("ray", reason="needs Ray (pip install 'flwr[simulation]')")


@pytest.mark.slow
def test_a_simulation_with_ray_equals_one_in_this_process(tmp_path):
    """Node ids, and the order of replies, are chance there: what comes out is not."""
    quiet = {"FLWR_HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    script = Path(__file__).with_name("simulate.py")
    ended = subprocess.run(
        [sys.executable, script],
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.stdout.splitlines()[-1:] == ["equal"], ended.stdout[-2000:] + ended.stderr[-3000:]

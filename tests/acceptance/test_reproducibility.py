"""The benchmark of reproducibility, in small: every disturbance, few calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.folders import CHECKOUT


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_versions__whatever_happens_to_the_installation__answer_byte_for_byte_as_before() -> None:
    words = ["--agents", "2", "--versions", "3", "--calls", "5"]

    done = subprocess.run(
        [sys.executable, "benchmarks/reproducibility.py", *words],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "differences: 0 of 30 calls × 16 disturbances" in done.stdout

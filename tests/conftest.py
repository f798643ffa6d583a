"""Settings shared by all tests: Hypothesis profiles, and the recorded data that may lie beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Kernels look at every argument in tests: compiled entry points do not. Set before anything imports the registry.
os.environ.setdefault("TSDB_KERNELS", "checked")

ROOT = Path(__file__).resolve().parent.parent

# Both profiles draw the same examples in every run, so that a red run is red again. `explore` draws new ones: for hunting by hand.
_CHECKS = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("ci", derandomize=True, database=None, deadline=None, print_blob=True, suppress_health_check=_CHECKS)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=40)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1_000, suppress_health_check=_CHECKS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded series that may lie beside the checkout; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("TSDB_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "nab").is_dir():
        pytest.skip(f"needs the recorded series in {folder}, which are not part of the repository (set TSDB_SHARED_DATA)")
    return folder

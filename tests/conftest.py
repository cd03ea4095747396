"""What every test can rely on: optional parts that are absent are named, not silently passed over."""

import contextlib
import importlib.util
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

# Before NumPy is loaded: xdist workers share the cores, so each keeps to one BLAS thread.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# What programs print and who may read their files must not depend on where the tests are started from.
os.umask(0o022)
for _variable in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_variable, None)

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

import processes  # noqa: E402
import small  # noqa: E402

# A verdict must depend neither on how busy the machine is nor on the day; who gives a SEED searches.
settings.register_profile(
    "same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="SEED" not in os.environ
)
settings.load_profile("same")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ABSENT = {
    "torch": None if importlib.util.find_spec("torch") else "needs PyTorch (make torch)",
    "flower": None if importlib.util.find_spec("flwr") else "needs Flower (make flower)",
    "browser": None if CHROMIUM else "needs Chromium (apt install chromium)",
}


def pytest_collection_modifyitems(items):
    """Skip what needs PyTorch, Flower or a browser where it is absent; pytest's summary gives the reason.

    What needs a browser takes long.
    """
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.long)
        for marker, reason in _ABSENT.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter):
    """Print what tests tell, and how much they tried in all: with several processes nothing else shows it."""
    sums = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            if name == "told":
                terminalreporter.write_line(value)
            if name == "counted":
                count, what = value
                sums[what] += count
    for what, count in sums.items():
        terminalreporter.write_line(f"{count} {what}")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The folder of the small data set, to be read only."""
    return small.write_folder(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture(scope="session")
def chromium():
    """The browser's path."""
    return CHROMIUM


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """End the processes that a test has begun, however the test ended."""
    yield
    processes.end_started()


@pytest.fixture
def shared_folder():
    """A folder in the system's own temporary folder, which every user can reach (pytest's own is private)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)


@contextlib.contextmanager
def _as_another_user():
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def ordinary_user():
    """A context in which permissions hold: they do not bind root, so act as another user for a moment."""
    return _as_another_user

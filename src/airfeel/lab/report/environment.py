"""On what the results were made into a page: versions and kind of machine, nothing that names it."""

import os
import platform
from importlib import metadata

import airfeel
from airfeel import _files


def environment() -> list[tuple[str, str]]:
    """Return names and values; neither the host nor a folder is among them."""
    return [
        ("airfeel", airfeel.__version__),
        ("Python", platform.python_version()),
        ("NumPy", metadata.version("numpy")),
        ("SciPy", metadata.version("scipy")),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("operating system", _system()),
    ]


def _processor() -> str:
    """Return the processor's trade name where the system tells it, else its kind."""
    try:
        lines = _files.read_bytes("/proc/cpuinfo", _files.SETTINGS).decode(errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = f"{platform.system()} {platform.release()}"
    return f"{name} ({platform.machine()})"

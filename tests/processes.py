"""Real processes for tests: started, held at a chosen moment, sent signals, and looked at from outside."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

# Python runs a module of this name when it starts. An audit hook hears of every import and every file that is
# opened, a profiler of every function that the main thread calls; at the chosen one the process says so
# on stderr and waits until the file GO is there.
HOLD = """
import os, sys, time
EVENT, WHAT, WHO = os.environ["HOLD"].split()
HELD = (WHO == "worker") != ("--multiprocessing-fork" in sys.argv)

def hook(event, arguments):
    global HELD
    if event == EVENT and not HELD and str(arguments[0]).endswith(WHAT):
        HELD = True
        os.write(2, b"waits for GO\\n")
        for _ in range(12_000):  # after two minutes nobody will come any more
            if os.path.exists(os.environ["GO"]):
                return
            time.sleep(0.01)
        os._exit(3)

if EVENT == "call":
    sys.setprofile(lambda frame, event, _: hook(event, [frame.f_code.co_qualname]))
else:
    sys.addaudithook(hook)
"""

WAITS = "waits for GO\n"
STARTED = []
LONGEST = 900  # seconds that a process may take


def airfeel(*words):
    """Return the command line."""
    return [sys.executable, "-m", "airfeel", *map(str, words)]


def begin(words, **options):
    """Start a process as a shell would: with a group of its own, deaf to nothing."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    restore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    process = subprocess.Popen(words, start_new_session=True, **streams | restore | options)
    STARTED.append(process)
    # Whoever waits for a moment that never comes hears then that the process has ended.
    limit = threading.Timer(LONGEST, end, [process])
    limit.daemon = True
    limit.start()
    return process


def end(process):
    """Kill a process with its group, if it is still there."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def end_started():
    """Kill whatever a test has begun and not seen to its end."""
    while STARTED:
        process = STARTED.pop()
        end(process)
        process.wait()


def hold(folder, words, event, what, who="parent", count=1):
    """Start a process and return it when it, or ``count`` workers of it, wait at an event: see HOLD above.

    With a ``count`` of 0 it is returned at once.
    """
    (folder / "held").mkdir(exist_ok=True)
    (folder / "held/sitecustomize.py").write_text(HOLD)
    path = os.pathsep.join([str(folder / "held"), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {"HOLD": f"{event} {what} {who}", "GO": str(folder / "go"), "PYTHONPATH": path}
    process = begin(words, env=os.environ | settings)
    for _ in range(count):
        read_until(process, WAITS)
    return process


def go_on(folder):
    """Let everything that is held in a folder go on."""
    (folder / "go").touch()


def read_until(process, words):
    """Read what a process says on stderr up to the line with these words, and return that."""
    said = []
    while words not in "".join(said[-1:]):
        said.append(process.stderr.readline())
        assert said[-1], f"ended before it said {words!r}: {''.join(said)}"
    return "".join(said)


def press_control_c(process):
    """Send the signal to all processes of the group, as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def until(condition, process=None, seconds=300):
    """Wait until something is so, and while a process goes on."""
    limit = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.005)


def workers_of(process):
    """Return the process ids of a campaign's workers."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process.pid and b"spawn_main" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def until_gone(pids, seconds=300):
    """Wait until processes have ended by themselves."""
    until(lambda: all(map(_gone, pids)), seconds=seconds)  # or a worker outlives its campaign


def _gone(pid):
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


def require_quiet(errors):
    """No process may have printed what only its author understands."""
    for word in ("Traceback", "Exception", "Error", "Warning", "leaked"):
        assert word not in errors, errors

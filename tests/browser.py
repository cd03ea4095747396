"""A page in headless Chromium, driven through its debugging pipe: no package needed."""

import contextlib
import itertools
import json
import os
import select
import subprocess
import time

PATIENCE = 300.0  # seconds: a guard against waiting for ever


class Page:
    """One open page: evaluates expressions in it, and keeps what it says and asks for."""

    def __init__(self, send, receive):
        self._send, self._receive = send, receive
        self._numbers = itertools.count(1)
        self._session = None
        self.said, self.asked = [], []

    def call(self, method, **parameters):
        """Call a method of the debugging protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._send(message | ({"sessionId": self._session} if self._session else {}))
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def open(self, address):
        """Open the page in a tab of its own and wait until its figures are drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.go(address)

    def go(self, address):
        """Go to an address and wait until the figures there are drawn."""
        self.call("Page.navigate", url=address)
        self.until("document.body && document.body.dataset.drawn === 'yes'")

    def until(self, condition):
        """Wait until a condition holds in the page."""
        end = time.monotonic() + PATIENCE
        while not self.see(condition):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.03)

    def see(self, expression):
        """Return the value of an expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _note(self, event):
        kind, facts = event.get("method"), event.get("params", {})
        if kind in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(facts)
        if kind == "Network.requestWillBeSent":
            self.asked.append(facts["request"]["url"])


@contextlib.contextmanager
def opened(chromium, address, profile, size="1100,900"):
    """Open a page in a browser that ends with the block."""
    read_commands, write_commands = os.pipe()
    read_answers, write_answers = os.pipe()
    words = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--no-first-run", f"--user-data-dir={profile}", f"--window-size={size}", "--hide-scrollbars",
        "--remote-debugging-pipe",
    ]  # fmt: skip
    # The browser reads file 3 and writes file 4.
    shell = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
    browser = subprocess.Popen(
        ["bash", "-c", shell, "bash", *words],
        pass_fds=(read_commands, write_answers),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    with os.fdopen(write_commands, "wb", buffering=0) as commands, os.fdopen(read_answers, "rb") as answers:
        page = Page(lambda message: commands.write(json.dumps(message).encode() + b"\0"), _reader(answers))
        try:
            page.open(address)
            yield page
        finally:
            with contextlib.suppress(OSError, AssertionError, EOFError):
                page._session = None
                page.call("Browser.close")
            with contextlib.suppress(subprocess.TimeoutExpired):
                browser.wait(timeout=10)
            browser.kill()


def _reader(file):
    """Return a function that reads one message, up to its closing zero byte."""
    buffer = bytearray()

    def receive():
        while b"\0" not in buffer:
            ready, _, _ = select.select([file], [], [], PATIENCE)
            chunk = os.read(file.fileno(), 1 << 16) if ready else b""
            if not chunk:
                raise EOFError("the browser says nothing more")
            buffer.extend(chunk)
        message, _, rest = bytes(buffer).partition(b"\0")
        buffer[:] = rest
        return json.loads(message)

    return receive

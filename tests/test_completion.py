"""The Tab key, in a real interactive bash on a terminal of its own."""

import os
import pty
import re
import select
import shutil

import pytest

from airfeel.cli import main
from airfeel.config.reference import keys
from airfeel.experiments.campaigns.plan import GROUPS, SHIPPED
from airfeel.registry import DATASETS, SCHEMES

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
PROMPT, TAB, ALL = "ready> ", "\t", "\x1b*"  # the last one is readline's insert-completions
LONGEST = 60  # seconds to wait for an answer that never comes


class Bash:
    """A bash that a person could sit at: every line is typed when the prompt is there."""

    def __init__(self, folder):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.environ.update(PS1=PROMPT, TERM="dumb", HISTFILE="", COLUMNS="10000")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.until(PROMPT)
        self.line("bind 'set enable-bracketed-paste off'")
        self.line("airfeel() { printf '<%s>' \"$@\"; echo; }")

    def line(self, text):
        os.write(self.terminal, f"{text}\n".encode())
        return self.until(PROMPT)

    def until(self, end):
        heard = ""
        while not heard.endswith(end):
            assert select.select([self.terminal], [], [], LONGEST)[0], f"no answer after {heard!r}"
            heard += os.read(self.terminal, 4096).decode(errors="replace")
        return heard

    def words(self, text):
        """Type a line with keys such as Tab in it, and return the words that the command got."""
        return re.findall("<(.*?)>", self.line(text).splitlines()[-2])

    def close(self):
        os.write(self.terminal, b"exit\n")
        os.waitpid(self.process, 0)
        os.close(self.terminal)


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    assert main(["--quiet", "--install-completion", "--shell", "bash", "--output", f"{folder}/airfeel"]) == 0
    shell = Bash(folder)
    shell.line(". ./airfeel")
    yield shell
    shell.close()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (f"airfeel repr{TAB}fig5a", ["reproduce", "fig5a"]),
        (f"airfeel reproduce fig5b --roun{TAB}", ["reproduce", "fig5b", "--rounds"]),
        (f"airfeel reproduce state{TAB}", ["reproduce", "state-evolution"]),
        (f"airfeel reproduce fig6 state{TAB}", ["reproduce", "fig6", "state-evolution"]),
        (f"airfeel data fash{TAB}", ["data", "fashion-mnist"]),
        (f"airfeel run --set uplink.rat{TAB}0.2", ["run", "--set", "uplink.ratio=0.2"]),
        (f"airfeel run --set scheme=low{TAB}", ["run", "--set", "scheme=low_rank"]),
        (f"airfeel run --set dataset=ci{TAB} --fo{TAB}", ["run", "--set", "dataset=cifar-10", "--force"]),
        (f"airfeel config --set channel.kind=ga{TAB}", ["config", "--set", "channel.kind=gaussian"]),
        (f"airfeel run --set uplink.fast=t{TAB}", ["run", "--set", "uplink.fast=true"]),
    ],
)
def test_tab_completes(bash, typed, words):
    assert bash.words(typed) == words


def test_all_that_could_stand_there_is_offered(bash):
    assert sorted(bash.words(f"airfeel reproduce {ALL}")[1:]) == sorted([*SHIPPED, *GROUPS])
    assert sorted(bash.words(f"airfeel data {ALL}")[1:]) == sorted(DATASETS.names())
    offered = bash.words(f"airfeel run --set {ALL}")[2:]
    assert sorted(offered) == sorted(f"{key.name}=" for key in keys())
    first, *others = bash.words(f"airfeel run --set scheme={ALL}")[2:]
    assert sorted([first.removeprefix("scheme="), *others]) == sorted(SCHEMES.names())

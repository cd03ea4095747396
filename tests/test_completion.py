"""The Tab key, in real shells: bash and zsh on terminals of their own; fish answers without one."""

import os
import pty
import re
import select
import shutil
import subprocess

import pytest

from airfeel.cli import main
from airfeel.config.parts import keys
from airfeel.lab.figures import GROUPS, SHIPPED
from airfeel.registry import DATASETS, SCHEMES

PROMPT, TAB, ALL = "ready> ", "\t", "\x1b*"  # the last one is readline's insert-completions
BRACKETS = re.compile(r"\x1b\[\?2004[hl]")  # around pasted text: zsh says so after its first prompt
LONGEST = 600  # seconds to wait for an answer that never comes


class Terminal:
    """A shell that a person could sit at: every line is typed when the prompt is there."""

    def __init__(self, folder, command, first):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.environ.update(PS1=PROMPT, TERM="dumb", HISTFILE="", COLUMNS="10000", HOME=str(folder))
            os.execvp(command[0], command)
        self.until(PROMPT)
        for line in (*first, "airfeel() { printf '<%s>' \"$@\"; echo; }", ". ./airfeel"):
            self.line(line)

    def line(self, text):
        os.write(self.terminal, f"{text}\n".encode())
        return self.until(PROMPT)

    def until(self, end):
        heard = ""
        while not heard.endswith(end):
            assert select.select([self.terminal], [], [], LONGEST)[0], f"no answer after {heard!r}"
            heard = BRACKETS.sub("", heard + os.read(self.terminal, 4096).decode(errors="replace"))
        return heard

    def words(self, text):
        """Type a line with keys such as Tab in it, and return the words that the command got."""
        return re.findall("<(.*?)>", self.line(text).splitlines()[-2])

    def close(self):
        os.write(self.terminal, b"exit\n")
        os.waitpid(self.process, 0)
        os.close(self.terminal)


def installed(name, folder):
    """Skip where there is no such shell; else write its script and return its path."""
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    assert main(["--quiet", "--install-completion", "--shell", name, "--output", f"{folder}/airfeel"]) == 0
    return folder / "airfeel"


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    folder = installed("bash", tmp_path_factory.mktemp("bash")).parent
    first = ["bind 'set enable-bracketed-paste off'"]
    shell = Terminal(folder, ["bash", "--norc", "--noprofile", "-i"], first)
    yield shell
    shell.close()


@pytest.fixture(scope="module")
def zsh(tmp_path_factory):
    folder = installed("zsh", tmp_path_factory.mktemp("zsh")).parent
    # What zsh sends to real terminals comes after the prompt, and would hide it.
    plain = "unset zle_bracketed_paste; unsetopt prompt_cr prompt_sp; autoload -Uz compinit; compinit -u -D"
    shell = Terminal(folder, ["zsh", "-f", "-i", "-o", "no_prompt_sp", "-o", "no_prompt_cr"], [plain])
    yield shell
    shell.close()


KEYS_AND_NAMES = [
    ("airfeel reproduce state", "state-evolution"),
    ("airfeel reproduce fig6 state", "state-evolution"),
    ("airfeel data fash", "fashion-mnist"),
    ("airfeel run --set uplink.rat", "uplink.ratio="),
    ("airfeel run --set scheme=low", "scheme=low_rank"),
    ("airfeel config --set dataset=ci", "dataset=cifar-10"),
    ("airfeel predict --set channel.kind=ga", "channel.kind=gaussian"),
]


LINES = [
    (f"airfeel repr{TAB}fig5a", ["reproduce", "fig5a"]),
    (f"airfeel reproduce fig5b --roun{TAB}", ["reproduce", "fig5b", "--rounds"]),
    (f"airfeel run --set uplink.rat{TAB}0.2", ["run", "--set", "uplink.ratio=0.2"]),
    (f"airfeel run --set dataset=ci{TAB} --fo{TAB}", ["run", "--set", "dataset=cifar-10", "--force"]),
    (f"airfeel run --set uplink.fast=t{TAB}", ["run", "--set", "uplink.fast=true"]),
]


WORDS = [(f"{typed}{TAB}", [word]) for typed, word in KEYS_AND_NAMES]


@pytest.mark.parametrize(("typed", "words"), LINES + WORDS)
def test_tab_completes(bash, typed, words):
    assert bash.words(typed)[-len(words) :] == words


def test_all_that_could_stand_there_is_offered(bash):
    assert sorted(bash.words(f"airfeel reproduce {ALL}")[1:]) == sorted([*SHIPPED, *GROUPS])
    assert sorted(bash.words(f"airfeel data {ALL}")[1:]) == sorted(DATASETS.names())
    offered = bash.words(f"airfeel run --set {ALL}")[2:]
    assert sorted(offered) == sorted(f"{key.name}=" for key in keys())
    first, *others = bash.words(f"airfeel run --set scheme={ALL}")[2:]
    assert sorted([first.removeprefix("scheme="), *others]) == sorted(SCHEMES.names())


@pytest.mark.parametrize(("typed", "word"), [("airfeel repr", "reproduce"), *KEYS_AND_NAMES])
def test_tab_completes_in_zsh(zsh, typed, word):
    assert zsh.words(f"{typed}{TAB}")[-1] == word


def test_fish_offers_the_same_words(tmp_path):
    script = installed("fish", tmp_path)
    others = [("airfeel bench split --set scheme=low", "scheme=low_rank")]
    for typed, word in [("airfeel repr", "reproduce"), *KEYS_AND_NAMES, *others]:
        ask = f"source {script}; complete -C '{typed}'"
        answer = subprocess.run(
            ["fish", "--no-config", "-c", ask], capture_output=True, text=True, timeout=LONGEST, check=True
        )
        assert [line.partition("\t")[0] for line in answer.stdout.splitlines()] == [word]

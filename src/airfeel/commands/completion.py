"""``airfeel --install-completion``: the Tab key for commands, options, figures, data sets and keys.

Commands and options come from the library that parses the command line, for four shells. The words that only
airfeel knows are added for bash. All of them are written into the script, so that Tab answers at once: after
an update, or a new package with parts of its own, the same command renews it.
"""

import shlex
from pathlib import Path
from typing import Literal

from cyclopts import App
from cyclopts.completion import detect_shell

from airfeel import _files
from airfeel.config.reference import keys
from airfeel.experiments.campaigns.plan import GROUPS, SHIPPED
from airfeel.registry import DATASETS

Shell = Literal["bash", "zsh", "fish", "powershell"]

# Readline splits words at "=", so the words are taken from the line itself, and the answer to key=val holds
# only what follows the sign.
_BASH = """
_airfeel_words() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" known="" one
  local word="${{line##*[[:space:]]}}"
  local -a before
  read -ra before <<< "${{line%"$word"}}"
  local last="${{before[${{#before[@]}}-1]}}"
  case "$last" in
    --set) known={settings}
      [[ "$word" == *=* ]] && known={values} ;;
    data) known={datasets} ;;
    reproduce|{alternatives}) [[ " ${{before[*]}} " == *" reproduce "* ]] && known={figures} ;;
  esac
  if [[ -z "$known" || "$word" == -* ]]; then
    _airfeel "$@"
    return
  fi
  COMPREPLY=()
  for one in $known; do
    [[ "$one" == "$word"* ]] && COMPREPLY+=("$one")
  done
  [[ "${{#COMPREPLY[@]}}" == 1 && "${{COMPREPLY[0]}}" == *= ]] && compopt -o nospace
  if [[ "$word" == *=* && "$COMP_WORDBREAKS" == *=* ]]; then
    COMPREPLY=("${{COMPREPLY[@]#"${{word%%=*}}="}}")
  fi
}}
complete -F _airfeel_words airfeel
"""


def install(app: App, shell: Shell | None, output: Path | None) -> Path:
    """Write the script where the shell finds it, or only into the file ``output``, and return its path."""
    shell = shell or detect_shell()
    path = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
    if shell == "bash":
        _files.write_atomically(path, _files.read_bytes(path, _files.SETTINGS), bash_words().encode())
    return path


def bash_words() -> str:
    """Return what bash needs beside the commands and options."""
    known = keys()
    figures = [*SHIPPED, *GROUPS]
    return _BASH.format(
        settings=_quoted([f"{key.name}=" for key in known]),
        values=_quoted([f"{key.name}={word}" for key in known for word in key.choices]),
        datasets=_quoted(DATASETS.names()),
        figures=_quoted(figures),
        alternatives="|".join(map(shlex.quote, figures)),
    )


def _quoted(words: list[str]) -> str:
    return shlex.quote(" ".join(words))

"""``airfeel --install-completion``: the Tab key for commands, options, figures, data sets and keys.

Commands and options come from the library that parses the command line, for four shells. The words that only
airfeel knows are added for bash, zsh and fish. All of them are written into the script, so that Tab answers
at once: after an update, or a new package with parts of its own, the same command renews it.
"""

import re
import shlex
from pathlib import Path
from typing import Literal

from cyclopts import App
from cyclopts.completion import detect_shell

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

# The file is the body of a function that zsh calls at the first Tab; from then on it calls ours.
_ZSH = """
_airfeel_words() {{
  local word="${{words[CURRENT]}}" last="${{words[CURRENT-1]}}"
  local -a known
  case "$last" in
    --set) known=({settings})
      [[ "$word" == *=* ]] && known=({values}) ;;
    data) known=({datasets}) ;;
    reproduce|{alternatives}) (( ${{words[(Ie)reproduce]}} )) && known=({figures}) ;;
  esac
  if (( ! ${{#known}} )) || [[ "$word" == -* ]]; then
    {others} "$@"
  elif [[ "$last" == --set && "$word" != *=* ]]; then
    compadd -S '' -- $known
  else
    compadd -- $known
  fi
}}
compdef _airfeel_words airfeel
if [[ "${{zsh_eval_context[-1]}}" == loadautofunc ]]; then
  _airfeel_words "$@"
fi
"""

_FISH = """
function __airfeel_settings
    if string match -q -- '*=*' (commandline -ct)
        printf '%s\\n' {values}
    else
        printf '%s\\n' {settings}
    end
end
complete -c airfeel -n '__fish_seen_subcommand_from {setting}' -l set -x -a '(__airfeel_settings)'
complete -c airfeel -n '__fish_seen_subcommand_from data' -a '{datasets}'
complete -c airfeel -n '__fish_seen_subcommand_from reproduce' -f -a '{figures}'
"""

_TEMPLATES = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def install(app: App, shell: Shell | None, output: Path | None) -> Path:
    """Write the script where the shell finds it, or only into the file ``output``, and return its path."""
    from airfeel import _files

    shell = shell or detect_shell()
    path = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
    if shell in _TEMPLATES:
        script = _files.read_bytes(path, _files.SETTINGS)
        _files.write_atomically(path, script, own_words(app, shell, script.decode()).encode())
    return path


def own_words(app: App, shell: Shell, script: str) -> str:
    """Return what a shell needs beside the ``script`` for commands and options."""
    from airfeel.config.parts import keys
    from airfeel.lab.figures import GROUPS, SHIPPED
    from airfeel.registry import DATASETS

    known, figures = keys(), [*SHIPPED, *GROUPS]
    words = {
        "settings": [f"{key.name}=" for key in known],
        "values": [f"{key.name}={word}" for key in known for word in key.choices],
        "datasets": DATASETS.names(),
        "figures": figures,
    }
    # One word that bash splits again; words of their own for the others.
    joined = {
        name: shlex.quote(" ".join(each)) if shell == "bash" else shlex.join(each)
        for name, each in words.items()
    }
    commands = {name: app[name] for name in app if not name.startswith("-")}
    setting = [
        name
        for name, command in commands.items()
        if any("--set" in argument.names for argument in command.assemble_argument_collection())
    ]
    function = re.search(r"^(\w+)\(\) \{$", script, re.MULTILINE)
    return _TEMPLATES[shell].format(
        **joined,
        alternatives="|".join(map(shlex.quote, figures)),
        setting=" ".join(setting),
        others=function[1] if function else "_default",
    )

"""The list of all keys says what a configuration takes."""

import pytest

from airfeel.cli import main
from airfeel.config import load_config, parse_override
from airfeel.config.parts import keys

KEYS = {key.name: key for key in keys()}
NEEDED = {"classes": {"partition.classes": 2}, "dirichlet": {"partition.alpha": 1.0}}  # without a default


def test_the_keys_are_those_of_the_template(capsys):
    """``airfeel config`` shows every key, as comments where nobody reads it."""
    assert main(["--quiet", "config"]) == 0
    table, shown = "", set()
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("["):
            table = line.strip("[]") + "."
        elif "=" in line:
            shown.add(table + line.removeprefix("# ").split(" ")[0])
    assert shown == set(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_its_default_is_what_a_configuration_has(name):
    key = KEYS[name]
    reader = key.readers[0] if key.readers else None
    if reader in NEEDED:
        assert not key.default
        return
    config = load_config(None, {key.part: reader} if reader else {})
    value = config
    for step in name.split("."):
        value = getattr(value, step)
    first = key.default.partition(";")[0] if key.readers else key.default
    expected = parse_override(f"x={first}")[1] if first else None
    if key.readers and f"({reader}" in key.default:
        return  # the most common default stands first, and this reader has another
    assert (list(value) if isinstance(value, tuple) else value) == expected


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.choices])
def test_its_words_are_taken(name):
    key = KEYS[name]
    base = {key.part: key.readers[0]} if key.readers else {}
    for word in key.choices:
        load_config(None, base | dict([parse_override(f"{name}={word}")]) | NEEDED.get(word, {}))


@pytest.mark.parametrize("name", KEYS)
def test_every_key_has_a_rule_and_a_meaning(name):
    assert KEYS[name].rule
    assert KEYS[name].help

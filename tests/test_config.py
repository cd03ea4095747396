"""Every valid configuration builds and reproduces itself; every mistake is one clear sentence."""

import pickle
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airfeel.config import Config, load_config, parse_override
from airfeel.registry import PARTITIONS, SCHEMES
from guards import limited, plant

FRACTION = st.floats(0, 1, exclude_min=True)
SAFE = {
    "scheme": st.sampled_from(SCHEMES.names()),
    "dataset": st.text(min_size=1, max_size=20),
    "rounds": st.integers(1, 10**6),
    "seed": st.integers(0, 2**63 - 1),
    "name": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    "devices.count": st.integers(1, 1000),
    "devices.samples": st.integers(1, 5000),
    "devices.local_steps": st.integers(1, 50),
    "devices.learning_rate": st.floats(1e-9, 10) | st.integers(1, 3),
    "devices.participation": FRACTION,
    "devices.dropout": st.floats(0, 0.99),
    "devices.batch_size": st.integers(1, 100),
    "uplink.ratio": FRACTION,
    "uplink.sparsity": FRACTION | st.just(1),
    "uplink.power": st.floats(1e-3, 1e6) | st.integers(1, 1000),
    "uplink.signs": st.booleans(),
    "channel.noise_var": st.floats(0, 1e3),
    "receiver.beta": FRACTION,
    "receiver.learn": st.booleans(),
    "receiver.amplitude_message": st.sampled_from(["expansion", "moments", "joint"]),
    "receiver.doubt": st.booleans(),
    "server.momentum": st.floats(0, 0.99),
    "run.checkpoint_every": st.integers(1, 100),
    "run.record_aggregates": st.booleans(),
}
WRONG = {
    "scheme": ["tsaga", 3],
    "rounds": [0, -1, 1.5, "300", True],
    "seed": [-1, 2**63, 0.5],
    "name": ["", "a b", "../up", 3],
    "devices": [3, "many"],
    "devices.count": [0, "ten", [1]],
    "devices.samples": [0, [], [1, 0], "all", True, 2.0],
    "devices.learning_rate": [0, -0.1, "fast", float("inf"), float("nan")],
    "uplink.ratio": [0, 1.5, -1, "0.1", float("nan")],
    "uplink.signs": [1, "yes"],
    "channel.kind": ["gauss", 1],
    "receiver.activity": [0, 1, 1.0],
    "server.momentum": [1, -0.1],
    "run.threads": [0, 2.5],
    "run.memory_map_above": [-1, 2.5],
}


@pytest.mark.long
@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=SAFE))
def test_a_valid_configuration_builds_and_its_resolved_form_reproduces_it(flat):
    config = load_config(None, flat)
    again = Config.model_validate(tomllib.loads(config.to_toml()))
    assert again == config
    assert again.label() == config.label()
    assert again.to_toml() == config.to_toml()


@settings(deadline=None)
@given(st.data())
def test_a_wrong_value_is_named_with_its_key_and_rule(data):
    key = data.draw(st.sampled_from(sorted(WRONG)))
    value = data.draw(st.sampled_from(WRONG[key]))
    with pytest.raises(ValueError) as caught:
        load_config(None, {key: value})
    message = str(caught.value)
    assert message.startswith(f"--set: {key} = {value!r}: must be ")
    assert "\n" not in message
    assert "pydantic" not in message


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=12))
def test_any_unknown_key_is_refused_with_a_valid_neighbour(word):
    valid = load_config(None).model_dump()["uplink"]
    if word in valid:
        return
    with pytest.raises(ValueError, match="unknown key, the nearest valid key is '"):
        load_config(None, {f"uplink.{word}": 1})


def test_all_mistakes_are_told_at_once_with_the_file(tmp_path):
    path = tmp_path / "mnist.toml"
    path.write_text('sceme = "tsa_ga"\nrounds = 0\n[uplink]\nrato = 0.1\n[partition]\nkind = "class"\n')
    with pytest.raises(ValueError) as caught:
        load_config(path, {"uplink.power": -1})
    assert set(str(caught.value).splitlines()) == {
        f"{path}: sceme = 'tsa_ga': unknown key, the nearest valid key is 'scheme'",
        f"{path}: rounds = 0: must be a whole number >= 1 and <= 1000000000000000",
        f"{path}: uplink.rato = 0.1: unknown key, the nearest valid key is 'uplink.ratio'",
        f"{path}: partition.kind = 'class': must be one of {', '.join(map(repr, PARTITIONS.names()))}, "
        "or package.module:Name; did you mean 'classes'?",
        "--set: uplink.power = -1: must be a finite number >= 1e-30 and <= 1e+30",
    }


WATTS = "radio.tx_power_dbm=23.0"
HERTZ = f"{WATTS} radio.bandwidth_hz=20e6"
LOSS = f"{WATTS} radio.path_loss_db=115.0"
CONTRADICTIONS = {
    "partition.classes=2": "partition.classes = 2: is only read with partition.kind = 'classes'",
    "partition.kind=dirichlet": "partition.alpha is missing: must be given with partition.kind",
    "partition.classes=2 partition.alpha=1.0 partition.kind=classes": "'dirichlet', but that",
    "server.optimizer=adam server.momentum=0.5": "is only read with server.optimizer = 'sgd'",
    "server.beta1=0.5": "server.beta1 = 0.5: is only read with server.optimizer = 'adam', but that is",
    "devices.local_steps=2 devices.local_epochs=1": "devices.local_steps = 2: must not be given with",
    "devices.local_epochs=0": "devices.local_epochs = 0: must be a whole number >= 1",
    "devices.momentum=1.0": "devices.momentum = 1.0: must be a finite number >= 0 and < 1",
    "devices.weight_decay=-1.0": "devices.weight_decay = -1.0: must be a finite number >= 0",
    "devices.schedule=linear": "devices.schedule = 'linear': must be one of 'constant'",
    "devices.schedule_every=5": "devices.schedule_every = 5: is only read with devices.schedule",
    "devices.training=adam": "devices.training = 'adam': must be one of 'sgd', or package.module:",
    "devices.samples=[5,6]": "devices.samples = [5, 6]: must have one entry for each of the 25",
    "uplink.policy=mean": "one of 'equal', 'long_term', 'selection', 'mse', 'fixed', or package.mod",
    "channel.threshold=0.2": "channel.threshold = 0.2: is only read with channel.kind = 'fading'",
    "receiver.activity=0.9 receiver.p01=0.5": "receiver.p01 = 0.5: must be <= (1 - activity)",
    "model.kind=cnn model.l2=0.1": "model.l2 = 0.1: is only read with model.kind = 'softmax'",
    "ratio=0.1": "ratio = 0.1: unknown key, the nearest valid key is 'uplink.ratio'",
    "uplnk.power=5": "uplnk.power = 5: unknown key, the nearest valid key is 'uplink.power'",
    HERTZ: "radio.path_loss_db is missing: must be given with [radio]",
    LOSS: "radio.bandwidth_hz is missing: must be given with any other key",
    f"{LOSS} radio.bandwidth_hz=0.0": "radio.bandwidth_hz = 0.0: must be a finite number >= 1e-30",
    f"{HERTZ} radio.tx_power_dbm=900.0": "radio.tx_power_dbm = 900.0: must be a finite number >= -400.0",
    f"{HERTZ} radio.overhead=-0.1": "radio.overhead = -0.1: must be a finite number >= 0",
    f"{HERTZ} {LOSS} radio.bandwith_hz=1e6": "radio.bandwith_hz = 1000000.0: unknown key, the nearest valid",
    f"{HERTZ} {LOSS} uplink.power=500.0": "uplink.power = 500.0: must not be given with a table [radio]",
    f"{HERTZ} {LOSS} channel.noise_var=2.0": "channel.noise_var = 2.0: must not be given with a table",
    f"{HERTZ} {LOSS} uplink.policy=long_term": "uplink.policy = 'long_term': must not be 'long_term' with [",
} | {
    f"model.kind=mlp model.hidden={hidden}": "must be a list of whole numbers >= 1, such as [100, 50]"
    for hidden in ("100", "[0]", "[1.5]", "[true]", "[[3]]")
}


@pytest.mark.parametrize("settings", CONTRADICTIONS)
def test_contradictions_and_neighbours(settings):
    with pytest.raises(ValueError) as caught:
        load_config(None, dict(map(parse_override, settings.split())))
    assert CONTRADICTIONS[settings] in str(caught.value) and "\n" not in str(caught.value)


DOTTED = {"scheme": "a_dsgd", "uplink.ratio": 0.04, "channel.kind": "fading", "channel.threshold": 0.2}
NESTED = {"scheme": "a_dsgd", "uplink": {"ratio": 0.04}, "channel": {"kind": "fading", "threshold": 0.2}}
BOTH = {"scheme": "a_dsgd", "uplink": {"ratio": 0.04}, "channel": "fading", "channel.threshold": 0.2}


@pytest.mark.parametrize("form", [DOTTED, NESTED, BOTH], ids=["dotted", "nested", "both"])
def test_a_dictionary_may_stand_for_a_file(form, tmp_path):
    expected, given = load_config(None, DOTTED), dict(form)
    assert load_config(given) == load_config(None, given) == load_config(given, {"rounds": 300}) == expected
    assert given == form
    path = tmp_path / "mine.toml"
    path.write_text('scheme = "a_dsgd"\n[uplink]\npower = 3.0\n[channel]\nthreshold = 0.1\nkind = "fading"\n')
    over = load_config(path, given)
    assert over == load_config(DOTTED, {"uplink.power": 3.0})  # table by table, key by key


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"uplink": {"rato": 1}}, "configuration: uplink.rato = 1: unknown key, the nearest valid key is"),
        ({"sceme": "x"}, "configuration: sceme = 'x': unknown key, the nearest valid key is 'scheme'"),
        ({"channel": "fadin"}, "configuration: channel.kind = 'fadin': must be one of"),
        ({"chanel": {}}, "configuration: chanel = {}: unknown key, the nearest valid key is"),
        ({3: 4}, "configuration: 3 = 4: unknown key"),
        (3, "config = 3: must be a Config, a dictionary of its keys, or the path of a TOML file"),
    ],
)
def test_a_mistake_in_a_dictionary_is_one_sentence(given, sentence):
    with pytest.raises(ValueError) as caught:
        load_config(given)
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def test_a_dictionary_without_end_is_one_sentence():
    endless = {}
    endless["uplink"] = endless
    with pytest.raises(
        ValueError, match=r"^configuration: lists or tables in one another, deeper than in any"
    ):
        load_config(endless)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=SAFE), st.fixed_dictionaries({}, optional=SAFE))
def test_a_changed_configuration_is_that_of_all_keys_at_once(first, second):
    config = load_config(first)
    assert load_config(config, second) == load_config(first | second)
    assert load_config(pickle.loads(pickle.dumps(config)), second) == load_config(first | second)


def test_what_follows_from_a_key_follows_anew_when_it_is_changed():
    config = load_config({"model.kind": "mlp", "devices.learning_rate": 0.2})
    assert (config.server.learning_rate, config.devices.batch_size) == (0.2, 50)
    faster = load_config(config, {"devices.learning_rate": 0.4})
    assert (faster.server.learning_rate, faster.devices.batch_size) == (0.4, 50)
    assert load_config(config, {"model.kind": "softmax"}).devices.batch_size is None
    copy = config.model_copy(update={"rounds": 7})
    assert load_config(copy, {"seed": 1}).rounds == 7


def test_numbers_of_numpy_and_paths_are_what_they_stand_for(tmp_path):
    strange = {
        "seed": np.int64(3),
        "uplink": {"ratio": np.float64(0.25), "signs": np.True_},
        "dataset": tmp_path,
    }
    plain = {"seed": 3, "uplink.ratio": 0.25, "uplink.signs": True, "dataset": str(tmp_path)}
    found = load_config(strange)
    assert found == load_config(plain) and found.to_toml() == load_config(plain).to_toml()
    assert {type(found.seed), type(found.uplink.ratio)} == {int, float}
    with pytest.raises(ValueError, match=r"seed = (np\.int64\()?-1\)?: must be a whole number >= 0"):
        load_config({"seed": np.int64(-1)})


def test_unreadable_files_are_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"none\.toml: cannot be read as a configuration file"):
        load_config(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b"rounds = = 3")
    with pytest.raises(ValueError, match=r"broken\.toml: is not valid TOML: .*line 1"):
        load_config(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not valid TOML"):
        load_config(broken)


def test_schemes_bring_the_paper_s_settings():
    sparsity = {name: load_config(None, {"scheme": name}).uplink.sparsity for name in SCHEMES.names()}
    assert sparsity["tsa_ga"] == sparsity["error_free"] == sparsity["turbo_cs"] == 0.2
    assert sparsity["a_dsgd"] == sparsity["a_dsgd_mmse"] == 0.05
    config = load_config(None, {"scheme": "tsa_ga", "uplink.sparsity": 0.1, "devices.learning_rate": 0.05})
    assert (config.receiver.activity, config.receiver.p01, config.receiver.beta) == (0.1, 0.005, 0.005)
    assert config.server.learning_rate == 0.05
    tuned = load_config(None, {"scheme": "tsa_ga_tuned"})
    assert (tuned.uplink.signs, tuned.uplink.sparsity, tuned.receiver.activity) == (True, 0.9, 0.9)


def test_overrides_are_toml_or_plain_text():
    assert parse_override("devices.samples=[10, 20]") == ("devices.samples", [10, 20])
    assert parse_override("receiver.learn=false") == ("receiver.learn", False)
    assert parse_override("dataset=/data/own idx") == ("dataset", "/data/own idx")
    with pytest.raises(ValueError, match="must have the form key=value"):
        parse_override("rounds")


@pytest.mark.parametrize("kind", ["/dev/zero", "pipe", "folder", "hole"])
def test_a_file_that_is_none_is_one_sentence(tmp_path, kind):
    path = tmp_path / "config.toml"
    plant(path, kind)
    rule = "is larger than" if kind == "hole" else "is not a regular file"
    with limited(), pytest.raises(ValueError, match=f"cannot be read as a configuration file .{rule}"):
        load_config(path)

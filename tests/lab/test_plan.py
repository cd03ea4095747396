"""Experiment files: the shipped ones are the paper's, all are checked before anything is computed."""

import tomllib

import pytest

import small
from airfeel.config import mistakes
from airfeel.lab.figures import BENCH, BEYOND, PAPER, RIVALS, SHIPPED
from airfeel.lab.plan import Experiment, read_experiment, select, shipped
from airfeel.registry import MODELS

OF_THEIR_OWN_SIZE = ("demo", "demo-half", "rates", "cell", "models", "cifar", *RIVALS, *BENCH, "rivals-cifar")
TRAINING = [name for name in SHIPPED if shipped(name).kind == "training" and name not in OF_THEIR_OWN_SIZE]


def settings(name):
    """Return curve, variant and configuration of every run with the first seed."""
    return {(run.curve, run.variant): run.config for run in shipped(name).runs() if run.config.seed == 0}


@pytest.mark.long
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_file_is_read_and_written(name):
    experiment = shipped(name)
    assert experiment.name == name
    assert Experiment.model_validate(tomllib.loads(experiment.to_toml())) == experiment
    assert experiment.runs()


@pytest.mark.parametrize("name", [name for name in SHIPPED if shipped(name).kind != "recovery"])
def test_shipped_experiments_state_their_scheme_and_rates(name):
    """Or their model's preset does: so defaults can change, and the server's rate follows the devices'."""
    for run in shipped(name).shortened(seeds=1).runs():
        config = run.config
        given = mistakes.flatten(config.model_dump(exclude_unset=True))
        tuned = MODELS.get(config.model.kind).tuned if config.model.preset else {}
        assert "scheme" in given and "devices.learning_rate" in given.keys() | tuned.keys()
        assert config.server.learning_rate == given.get("server.learning_rate", config.devices.learning_rate)


@pytest.mark.parametrize("name", TRAINING)
def test_the_training_figures_have_the_papers_sizes(name):
    experiment = shipped(name)
    assert (experiment.rounds, experiment.seeds) == (300, (0, 1, 2))
    for config in settings(name).values():
        assert (config.devices.count, config.devices.samples, config.rounds) == (25, 1000, 300)
        assert (config.devices.learning_rate, config.channel.noise_var) == (0.01, 1.0)
        if config.scheme == "tsa_ga":
            start = config.receiver
            assert (start.p01, start.beta, start.learn_from) == (0.005, 0.005, 10)


@pytest.mark.parametrize(("name", "steps"), [("fig5a", 1), ("fig5b", 5)])
def test_fig5_compares_six_schemes(name, steps):
    found = settings(name)
    schemes = ("error_free", "tsa_ga", "tsa_ga_no_support", "tsa_ga_no_amplitude", "a_dsgd", "a_dsgd_mmse")
    assert tuple(config.scheme for config in found.values()) == schemes
    for config in found.values():
        assert config.devices.local_steps == steps
        assert (config.uplink.ratio, config.uplink.power) == (0.1, 500.0)
        assert config.uplink.sparsity == (0.05 if config.scheme.startswith("a_dsgd") else 0.2)


def test_a_file_can_be_like_a_shipped_one(tmp_path):
    file, model = tmp_path / "mine.toml", shipped("rivals-softmax")
    file.write_text(
        'like = "rivals-softmax"\nseeds = [7]\n[base]\nuplink.power = 5.0\n'
        '[[curves]]\nlabel = "TSA-GA"\nuplink.sparsity = 0.1\n'
        '[[curves]]\nlabel = "mine"\nscheme = "turbo_cs"\n'
    )
    mine = read_experiment(file)
    assert (mine.name, mine.title, mine.rounds, mine.seeds) == ("mine", model.title, model.rounds, (7,))
    assert mine.variants == model.variants
    assert mine.base == model.base | {"uplink": {"power": 5.0}}
    labels = [curve["label"] for curve in model.curves]
    assert [curve["label"] for curve in mine.curves] == [*labels, "mine"]
    changed = {"label": "TSA-GA", "scheme": "tsa_ga", "uplink": {"sparsity": 0.1}}
    assert mine.curves[labels.index("TSA-GA")] == changed
    others = [curve for curve in mine.curves if curve["label"] not in ("TSA-GA", "mine")]
    assert others == [curve for curve in model.curves if curve["label"] != "TSA-GA"]


def test_a_grid_takes_the_place_of_the_variants_of_the_other(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('like = "fig7"\n[grid]\nuplink.power = [1.0, 2.0]\n')
    mine = read_experiment(file)
    assert {run.config.uplink.power for run in mine.runs()} == {1.0, 2.0}
    assert mine.variants == () and shipped("fig7").variants


def test_fig6_ties_sparsity_to_the_ratio():
    found = settings("fig6")
    assert {config.uplink.ratio for config in found.values()} == {0.5, 0.2, 0.1, 0.04}
    for config in found.values():
        factor = 0.5 if config.scheme.startswith("a_dsgd") else 1.0
        assert config.uplink.sparsity == pytest.approx(factor * config.uplink.ratio)
        assert (config.devices.local_steps, config.uplink.power) == (5, 500.0)
    assert {figure.x for figure in shipped("fig6").figures} == {"round", "symbols"}


def test_fig7_varies_the_power_and_fig8_the_classes():
    powers = settings("fig7").values()
    assert {config.uplink.power for config in powers} == {50.0, 200.0, 500.0, 1000.0}
    assert {(config.uplink.ratio, config.devices.local_steps) for config in powers} == {(0.1, 5)}
    classes = settings("fig8").values()
    assert {config.partition.classes for config in classes} == {None, 2, 5}
    assert {(config.uplink.sparsity, config.devices.local_steps) for config in classes} == {(0.05, 1)}


def test_all_is_the_paper_and_nothing_beyond():
    assert tuple(experiment.name for experiment in select(["all", "fig5a"])) == PAPER
    assert tuple(experiment.name for experiment in select(["tuned", "all"])) == ("tuned", *PAPER)
    assert not set(PAPER) & set(BEYOND)
    assert tuple(experiment.name for experiment in select(["rivals"])) == RIVALS
    with pytest.raises(ValueError, match="NAME = 'fig9': must be one of fig2"):
        select(["fig9"])


def test_fewer_rounds_and_seeds():
    short = shipped("fig5a").shortened(rounds=7, seeds=1)
    assert [run.config.rounds for run in short.runs()] == [7] * 6
    assert {run.config.seed for run in short.runs()} == {0}
    assert shipped("fig5a").shortened() == shipped("fig5a")


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_grid_is_every_combination(tmp_path):
    text = "seeds = [3, 4]\n[grid]\nscheme = ['tsa_ga', 'common_k']\nuplink.ratio = [0.1, 0.2, 0.4]\n"
    experiment = read_experiment(write(tmp_path, text))
    runs = experiment.runs()
    assert (experiment.name, len(runs), experiment.swept()) == ("mine", 12, ["uplink.ratio"])
    assert [(run.curve, run.variant, run.config.seed) for run in runs[:3]] == [
        ("tsa_ga", "uplink.ratio = 0.1", 3),
        ("tsa_ga", "uplink.ratio = 0.1", 4),
        ("tsa_ga", "uplink.ratio = 0.2", 3),
    ]


def test_curves_win_over_variants_and_those_over_the_base(tmp_path):
    text = """
    seeds = [0]
    [base]
    uplink = { ratio = 0.1, power = 1.0 }
    rounds = 9
    [[variants]]
    label = "loud"
    uplink.power = 2.0
    [[curves]]
    label = "short"
    rounds = 3
    uplink.sparsity = { of = "uplink.ratio", times = 0.5 }
    """
    (run,) = read_experiment(write(tmp_path, text)).runs()
    uplink = run.config.uplink
    assert (uplink.ratio, uplink.power, uplink.sparsity, run.config.rounds) == (0.1, 2.0, 0.05, 3)


CURVE = "[[curves]]\nlabel = 'a'\n"
FIGURE = "[[figures]]\nname = 'a'\ntitle = 'a'\n"
SWEPT = f"grid.uplink.ratio = [0.1, 0.2]\ngrid.scheme = ['tsa_ga', 'dense']\n{FIGURE}"
MISTAKES = {
    "seeds = 3": "seeds = 3: must be a list of one or more whole numbers >= 0",
    "seeds = []": "seeds = []: must be a list of one or more whole numbers >= 0",
    "sedes = [1]": "sedes = [1]: unknown key, the nearest valid key is 'seeds'",
    "kind = 'trainin'": "did you mean 'training'?",
    "base = 3": "base = 3: must be a table of configuration keys",
    "rounds = ": "is not valid TOML",
    "grid.uplink.ratio = 0.1": "grid.uplink.ratio = 0.1: must be a list of values",
    f"grid.seed = [0{', 0' * 100}]\ngrid.rounds = [1{', 1' * 99}]": "must make at most 10000 combinations",
    "grid.uplink.ratio = [0.1, 2]": "mine / uplink.ratio = 2: uplink.ratio = 2: must be a finite number",
    "grid.rounds = [1]\n[[variants]]\nlabel = 'x'": "must be empty where variants are listed",
    "base.uplink.rato = 1": "mine: uplink.rato = 1: unknown key, the nearest valid key is 'uplink.ratio'",
    "base.uplink.sparsity = { of = 'uplink.ratoi' }": "mine: uplink.sparsity.of = 'uplink.ratoi': must name",
    "base.dataset = 'mnits'": "dataset = 'mnits': must be one of 'mnist', 'fashion-mnist', 'cifar-10', 'kjv'",
    "base.dataset = 'no.npz'": "dataset = 'no.npz': No such file",
    "base.dataset = 'no.such:load'": "dataset = 'no.such:load': cannot import 'no.such'",
    "[[curves]]\nscheme = 'tsa_ga'": "every entry must have a label",
    f"{CURVE}{CURVE}": "no label may appear twice",
    f"{CURVE}seeds = [9]": "curves.seeds = [9]: must be a list of some of the experiment's seeds, [0, 1, 2]",
    f"{CURVE}seeds = 1": "curves.seeds = 1: must be a list",
    f"{CURVE}seeds = []": "curves.seeds = []: must be a list",
    f"subjects = ['b']\n{CURVE}": "subjects = 'b': must be one of ['a']",
    f"{CURVE}[[left_out]]\ncurve = 'b'\nwhy = 'w'": "left_out.curve = 'b': must be one of ['a']",
    f"{CURVE}[[left_out]]\ncurve = 'a'\nvariants = ['v']\nwhy = 'w'": "left_out.variants = 'v': must be",
    "[[figures]]\nname = 'a b'\ntitle = 'x'": "figures.name = 'a b': must be a text",
    "[[figures]]\nnam = 'a'": "figures.nam = 'a': unknown key, the nearest valid key is 'figures.name'",
    f"{FIGURE}metric = 'acuracy'": "figures.metric = 'acuracy': must be one of",
    f"{FIGURE}variant = 'loudest'": "figures.variant = 'loudest': must be one of",
    f"{FIGURE}kind = 'pie'": "figures.kind = 'pie': must be one of",
    f"{FIGURE}x = 'uplink.ratio'": "figures.x = 'uplink.ratio': must be one of",
    f"{SWEPT}y = 'uplink.ratio'": "figures.y = 'uplink.ratio': must be another swept key than x",
    f"{SWEPT}x = 'uplink.ratio'\ny = 'uplink.ratio'": "figures.y = 'uplink.ratio': must be another",
    f"{SWEPT}x = 'uplink.ratio'\ny = 'scheme'": "figures.y = 'scheme': must be another swept key",
    "like = 'fig99'": "like = 'fig99': must be one of fig2, ",
    "like = 3": "like = 3: must be one of fig2, ",
    "like = 'fig5a'\n[[curves]]\nscheme = 'dense'": "every entry must have a label",
    "like = 'fig5a'\n[[curves]]\nlabel = [1]": "every entry must have a label",
    "like = 'fig5a'\ncurves = 3": "must be a list of tables",
    "like = 'fig5a'\nbase = 3": "must be a table",
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[-40:])
def test_mistakes_in_a_file_are_one_sentence_and_exit_code_2(tmp_path, text):
    ended = small.call(["airfeel", "sweep", str(write(tmp_path, text)), "--out", str(tmp_path / "out")])
    assert ended.returncode == 2
    assert MISTAKES[text] in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()

"""Measure the profiles of ``airfeel predict --profile``: what gradients are like, and what an error costs.

    python benchmarks/study_profiles.py train  FOLDER [PROFILE]   the runs, resumable (an hour)
    python benchmarks/study_profiles.py write  FOLDER [PROFILE]   src/airfeel/profiles/*.json from them

Every profile is the same training over several links and with three seeds, and once without a radio. Of each
link it keeps what the receiver found (chain, noise, NMSE) and the accuracy over the rounds. Some links are
trained for a shorter time once more: with twice as many devices, with a fading channel in which one device in
eleven is silent in a round, and with both.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import airfeel as af
from airfeel.experiments.campaigns.folder import ResultsFolder
from airfeel.experiments.studies.air_draws import draw_air
from airfeel.experiments.studies.profile_making import measure, measure_others
from airfeel.radio.fading import FadingMAC
from airfeel.theory.planner import LinkBudget
from airfeel.units import from_decibel

SEEDS = (0, 1, 2)
SIZES = {"softmax": 7850, "cnn": 20466}
LINKS = [
    (0.05, 16),
    (0.1, 6),
    (0.1, 16),
    (0.1, 26),
    (0.3, 26),
]  # s/N, and receive SNR in dB
CNN = {"model.kind": "cnn", "devices.count": 10, "devices.local_steps": 5, "devices.batch_size": 50}
PROFILES = {
    "mnist-softmax": {"dataset": "mnist", "rounds": 300, "run.evaluate_every": 5},
    "fashion-mnist-softmax": {"dataset": "fashion-mnist", "rounds": 200, "run.evaluate_every": 5},
    "mnist-cnn": CNN
    | {"dataset": "mnist", "rounds": 40, "run.evaluate_every": 4, "devices.learning_rate": 0.3},
}
OTHERS = {  # links that are trained with other devices too, and for how many rounds
    "mnist-softmax": ([(0.1, 6), (0.1, 26), (0.3, 26)], 150),
    "fashion-mnist-softmax": ([(0.1, 6), (0.1, 26)], 150),
    "mnist-cnn": ([(0.3, 26)], 24),
}
REPEATED = {"mnist-softmax": [(0.1, 26)]}  # with silent devices also with the other seeds, as these differ
SOFTMAX = "softmax regression, 25 devices with 1000 IID samples each, one local step with rate 0.01"
ABOUT = {
    "mnist-softmax": f"MNIST, {SOFTMAX}",
    "fashion-mnist-softmax": f"Fashion-MNIST, {SOFTMAX}",
    "mnist-cnn": "MNIST, a CNN of 20,466 parameters, 10 devices with 1000 IID samples each, 5 local steps "
    "of 50 samples with rate 0.3",
}
TARGET = Path(__file__).parent.parent / "src" / "airfeel" / "profiles"


def configurations(name):
    """Yield what is trained: every link of a profile with every seed, error-free training, other devices."""
    settings = PROFILES[name]
    devices = settings.get("devices.count", 25)
    for seed in SEEDS:
        common = settings | {"seed": seed, "run.threads": 1, "run.checkpoint_every": 100}
        yield af.load_config(None, common | {"scheme": "error_free"})
        for link in LINKS:
            yield af.load_config(None, common | uplink(settings, link, devices))
    links, rounds = OTHERS[name]
    for link in links:
        for count, kind in ((devices, "fading"), (2 * devices, "gaussian"), (2 * devices, "fading")):
            repeated = (count, kind) == (devices, "fading") and link in REPEATED.get(name, [])
            for seed in SEEDS if repeated else SEEDS[:1]:
                common = settings | {"seed": seed, "run.threads": 1, "run.checkpoint_every": 100}
                other = {"devices.count": count, "channel.kind": kind, "rounds": rounds}
                yield af.load_config(None, common | other | uplink(settings, link, count, kind))


def uplink(settings, link, devices, kind="gaussian"):
    """Return the settings that give so many devices this link; that of a fading channel in the mean."""
    ratio, snr_db = link
    rows = round(ratio * SIZES[settings.get("model.kind", "softmax")])
    power = from_decibel(float(snr_db)) * rows / devices**2
    if kind == "fading":
        power *= float(draw_air(FadingMAC(), devices, rows, 100).at(LinkBudget()).noise.mean())
    return {"uplink.ratio": ratio, "uplink.power": round(power, 4)}


def write(name, folder):
    """Put together what the runs of a profile measured; links with fewer seeds are left out."""
    results = ResultsFolder(folder / name)
    runs = [results.run(label) for label in results.labels()]
    runs = [run for run in runs if run.settings["scheme"] == "tsa_ga"]
    whole = [run for run in runs if run.settings["rounds"] == PROFILES[name]["rounds"]]
    links = Counter(run.settings["uplink.power"] for run in whole)
    complete = [run for run in whole if links[run.settings["uplink.power"]] == len(SEEDS)]
    complete.sort(key=lambda run: run.settings["seed"])
    size = SIZES[PROFILES[name].get("model.kind", "softmax")]
    facts = measure(ABOUT[name], size, complete)
    facts["others"] = measure_others(facts, complete, [run for run in runs if run not in whole])
    (TARGET / f"{name}.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["train", "write"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("profile", nargs="*", default=list(PROFILES))
    given = parser.parse_args()
    for name in given.profile:
        if given.what == "write":
            write(name, given.folder)
            continue
        for config in configurations(name):
            af.run(config, out=given.folder / name, progress=True)


if __name__ == "__main__":
    main()

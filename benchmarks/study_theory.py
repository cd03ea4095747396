"""How well does the theory describe the receiver? (docs/theory.md shows the results)

    python benchmarks/study_theory.py settings [--size 7850] [--seeds 10]   simulation beside state evolution
    python benchmarks/study_theory.py course [--figures DIR]                two receivers, two recursions
    python benchmarks/study_theory.py theorem2                              exact posteriors, three messages
    python benchmarks/study_theory.py bound [--rounds 150] [--figures DIR]  Theorem 3 on MNIST
    python benchmarks/study_theory.py times                                 seconds of one prediction

Figures need the extra ``report``.
"""

import argparse
import time
from itertools import islice
from pathlib import Path

import numpy as np

import airfeel as af
from airfeel.lab.studies.bound import measure
from airfeel.streams import stream
from airfeel.theory import exact_evolution
from airfeel.theory.scalar import sample_paths
from airfeel.units import count, decibel, from_decibel

# s/N, lambda, p01, beta, SNR in dB
SETTINGS = [
    (0.1, 0.05, 0.01, 0.01, 20.0),
    (0.2, 0.1, 0.01, 0.01, 20.0),
    (0.3, 0.1, 0.05, 0.05, 15.0),
    (0.1, 0.03, 0.02, 0.3, 20.0),
    (0.5, 0.2, 0.02, 0.01, 25.0),
    (0.15, 0.05, 0.005, 0.005, 10.0),
]
ROUNDS, STEADY = 40, 25


def simulate(setting, size, seeds, **options):
    """Return the real receiver's NMSE per round, errors and powers summed over seeds."""
    ratio, activity, p01, beta, snr_db = setting
    chain, noise_var = af.ChainParams(activity, p01, beta), activity * from_decibel(-snr_db)
    receiver = af.TSAGA(activity, p01, beta, learn=False, variance=1.0, **options)
    total = np.zeros((2, ROUNDS))
    for seed in range(seeds):
        state = receiver.init(size)
        for t, (x, _) in enumerate(islice(sample_paths(chain, 1, size, seed + 900), ROUNDS)):
            operator = af.PartialDCT(size, count(ratio, size), seed=1000 * seed + t)
            noise = np.sqrt(noise_var) * stream(seed, "study noise", t).standard_normal(operator.rows)
            reception = af.Reception(operator @ x[0] + noise, operator, noise_var)
            estimate, state = receiver.receive(state, reception)
            total[:, t] += np.sum((estimate.mean - x[0]) ** 2), np.sum(x[0] ** 2)
    return total[0] / total[1]


def evolve(setting, samples=200_000, rounds=ROUNDS, **options):
    ratio, activity, p01, beta, snr_db = setting
    chain = af.ChainParams(activity, p01, beta)
    return af.state_evolution(
        chain, ratio, activity * from_decibel(-snr_db), rounds, samples=samples, **options
    )


def settings(size, seeds):
    print("| s/N, lambda, p01, beta, SNR | simulated | predicted | first rounds simulated | predicted |")
    print("|---|---|---|---|---|")
    for setting in SETTINGS:
        found, expected = simulate(setting, size, seeds), evolve(setting)
        steady = [decibel(nmse[STEADY:].mean()) for nmse in (found, expected.nmse)]
        first = [" ".join(f"{v:.1f}" for v in decibel(nmse[:6])) for nmse in (found, expected.nmse)]
        print(f"| {setting} | {steady[0]:.2f} | {steady[1]:.2f} | {first[0]} | {first[1]} |", flush=True)


def course(figures):
    """The full receiver, and the one without support chain, whose beliefs are far from the truth."""
    setting, data = SETTINGS[1], {}
    for name, options in {
        "TSA-GA": {},
        "without support chain": {"support_chain": False, "amplitude_message": "moments"},
    }.items():
        data[f"{name}, simulated"] = decibel(simulate(setting, 20_000, 2, **options))
        for recursion in ("actual", "paper"):
            prediction = evolve(setting, 80_000, recursion=recursion, **options)
            data[f"{name}, {recursion} recursion"] = prediction.nmse_db
    for name, values in data.items():
        print(f"{name:<45}", np.round(values[[0, 1, 2, 3, 5, 9, 19, 39]], 1))
    if figures is not None:
        from airfeel.lab.charts import Figure
        from airfeel.lab.curves import plain_curves

        rounds = range(1, ROUNDS + 1)
        figure = Figure("state-evolution", "state evolution and simulation", "", "NMSE (dB)")
        plain_curves(figure, {name: (rounds, values) for name, values in data.items()}).save(
            figures / figure.name
        )


def theorem2():
    """Fixed points over rounds, from v_0 = Var[x], where the paper's message does worst."""
    chain, ratio, noise_var = af.ChainParams(0.1, 0.3, 0.002), 0.3, 1e-3
    exact = exact_evolution(chain, ratio, noise_var, 6, samples=40_000)
    phi = 1 / (1 / exact.v[:, -1] + 1 / exact.tau[:, -1])
    print(f"{'exact':<12}", np.round(decibel(phi.mean(axis=1) / 0.1), 2))
    for message in ("joint", "moments", "expansion"):
        found = af.state_evolution(chain, ratio, noise_var, 20, amplitude_message=message, start="signal")
        print(f"{message:<12}", np.round(found.nmse_db[[0, 1, 2, 3, 4, 5, 9, 14, 19]], 2))


def bound(rounds, figures):
    result = measure(
        af.load_config(
            None, {"scheme": "tsa_ga", "devices.learning_rate": 0.01, "model.l2": 0.1, "rounds": rounds}
        )
    )
    print(result.constants, f"loss* = {result.best_loss:.6f}, limit of the printed bound {result.limit:.4g}")
    for t in (1, 2, 5, 10, 20, 50, 100, rounds):
        values = (a[t - 1] for a in (result.gap, result.measured, result.printed))
        print(t, *(f"{value:.5g}" for value in values))
    print("both hold in every round:", bool(np.all(result.gap <= result.measured)))
    if figures is not None:
        from airfeel.lab.charts import Figure
        from airfeel.lab.curves import plain_curves

        figure = Figure("bounds", "Theorem 3 on a real run", "", "loss - smallest loss", log_y=True)
        courses = {
            "measured gap": result.gap,
            "bound from measured errors (83)": result.measured,
            "printed bound (61)": result.printed,
        }
        data = {name: (range(1, rounds + 1), values) for name, values in courses.items()}
        plain_curves(figure, data).save(figures / figure.name)


def times():
    """Processor seconds, so that a busy machine does not matter."""
    chain = af.ChainParams(0.05, 0.01, 0.01)
    for rounds, samples in ((20, 80_000), (40, 80_000), (40, 24_000)):
        began = time.process_time()
        af.state_evolution(chain, rounds=rounds, samples=samples)
        print(f"{rounds} rounds, {samples} chains: {time.process_time() - began:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("study", choices=("settings", "course", "theorem2", "bound", "times"))
    parser.add_argument("--size", type=int, default=7850)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--figures", type=Path)
    arguments = parser.parse_args()
    match arguments.study:
        case "settings":
            settings(arguments.size, arguments.seeds)
        case "course":
            course(arguments.figures)
        case "theorem2":
            theorem2()
        case "bound":
            bound(arguments.rounds, arguments.figures)
        case "times":
            times()


if __name__ == "__main__":
    main()

"""Which message to the amplitude is the best default? (docs/results/receiver.md shows the result)

    python benchmarks/study_messages.py model [--seeds 3]     data drawn from the signal model
    python benchmarks/study_messages.py mnist [--seeds 2]     whole trainings on MNIST, receiver in the loop

``model``: NMSE in dB over rounds 21-40 at N = 7850 and 20 dB, for every message with the true parameters
and with EM from the paper's initial values, beside Turbo-CS without memory. ``mnist``: accuracy after 25,
50 and 100 rounds and NMSE.
"""

import argparse
from collections.abc import Iterator

import numpy as np

import airfeel as af
from airfeel.streams import stream

MESSAGES = ("expansion", "moments", "joint")
# name, s/N, lambda, p01, beta
MODELS = [
    ("slow supports, slow amplitudes", 0.1, 0.05, 0.01, 0.01),
    ("slow supports, fast amplitudes", 0.2, 0.10, 0.01, 0.3),
    ("fast supports, slow amplitudes", 0.4, 0.10, 0.3, 0.002),
    ("medium supports, slow amplitudes", 0.2, 0.10, 0.1, 0.01),
    ("fast supports, fast amplitudes", 0.4, 0.10, 0.3, 0.3),
]
SIZE, ROUNDS, FIRST = 7850, 40, 20


def signals(chain: af.ChainParams, seed: int) -> Iterator[np.ndarray]:
    rng = stream(seed, "study signal")
    active = rng.random(SIZE) < chain.activity
    amplitude = rng.standard_normal(SIZE)
    for _ in range(ROUNDS):
        yield active * amplitude
        u = rng.random(SIZE)
        active = np.where(active, u >= chain.p01, u < chain.p10)
        innovation = np.sqrt(chain.process_var) * rng.standard_normal(SIZE)
        amplitude = (1 - chain.beta) * amplitude + innovation


def steady_nmse(receiver: af.TSAGA, chain: af.ChainParams, ratio: float, seed: int) -> float:
    state, errors = receiver.init(SIZE), []
    noise_var = chain.activity / 100
    for t, x in enumerate(signals(chain, seed)):
        operator = af.PartialDCT(SIZE, round(ratio * SIZE), seed=1000 * seed + t)
        noise = np.sqrt(noise_var) * stream(seed, "study noise", t).standard_normal(operator.rows)
        estimate, state = receiver.receive(state, af.Reception(operator @ x + noise, operator, noise_var))
        errors.append(10 * np.log10(np.sum((estimate.mean - x) ** 2) / np.sum(x**2)))
    return float(np.mean(errors[FIRST:]))


def model(seeds: int) -> None:
    print("| model data | parameters | memoryless |", " | ".join(MESSAGES), "|")
    print("|---|---|---|" + "---|" * len(MESSAGES))
    for name, ratio, activity, p01, beta in MODELS:
        chain = af.ChainParams(activity, p01, beta)
        forgetful = _known(chain, support_chain=False, amplitude_chain=False)
        memoryless = _mean(lambda s, f=forgetful, c=chain, r=ratio: steady_nmse(f, c, r, s), seeds)
        for start in ("known", "learned"):
            cells = [_cell(chain, ratio, start, message, seeds) for message in MESSAGES]
            print(f"| {name} | {start} | {memoryless:.2f} | {' | '.join(cells)} |", flush=True)


def _known(chain: af.ChainParams, **options: bool | str) -> af.TSAGA:
    return af.TSAGA(chain.activity, chain.p01, chain.beta, learn=False, variance=1.0, **options)


def _cell(chain: af.ChainParams, ratio: float, start: str, message: str, seeds: int) -> str:
    receiver = _known(chain, amplitude_message=message)
    if start == "learned":
        receiver = af.TSAGA(chain.activity, amplitude_message=message)
    return f"{_mean(lambda s: steady_nmse(receiver, chain, ratio, s), seeds):.2f}"


def mnist(seeds: int) -> None:
    print("| training | message | accuracy at 25 | 50 | 100 | NMSE dB, rounds 5-25 | 26-100 |")
    print("|---|---|---|---|---|---|---|")
    for steps in (1, 5):
        for scheme, message in [("error_free", None), *(("tsa_ga", m) for m in MESSAGES), ("turbo_cs", None)]:
            runs = [_train(scheme, message, steps, seed) for seed in range(seeds)]
            accuracy = [np.mean([run[t - 1].accuracy for run in runs]) for t in (25, 50, 100)]
            noise = [_mean_nmse(runs, slice(4, 25)), _mean_nmse(runs, slice(25, 100))]
            cells = [f"{a:.4f}" for a in accuracy] + noise
            print(f"| E = {steps} | {message or scheme} | {' | '.join(cells)} |", flush=True)


def _train(scheme: str, message: str | None, steps: int, seed: int) -> list:
    values = {
        "scheme": scheme,
        "rounds": 100,
        "seed": seed,
        "devices.learning_rate": 0.01,
        "devices.local_steps": steps,
    }
    if message is not None:
        values["receiver.amplitude_message"] = message
    return list(af.train(af.load_config(None, values)))


def _mean_nmse(runs: list, rounds: slice) -> str:
    values = [record.nmse_db for run in runs for record in run[rounds] if record.nmse_db is not None]
    return f"{np.mean(values):.2f}" if values else ""


def _mean(value, seeds: int) -> float:
    return float(np.mean([value(seed) for seed in range(seeds)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["model", "mnist"])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    {"model": model, "mnist": mnist}[arguments.what](arguments.seeds)

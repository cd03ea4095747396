"""How fast the receivers are, always as a ratio taken in one run.

    python benchmarks/bench_receiver.py speed      receive() in units of one DCT + inverse pair
    python benchmarks/bench_receiver.py growth     time and memory for N = 1e3 ... 1e7, whole and in blocks
    python benchmarks/bench_receiver.py rivals     FISTA, SPGL1, Lasso and OMP on the same receptions
    python benchmarks/bench_receiver.py matrix     any matrix, two thirds as many rows as columns (--size)

D(N) is the time of one scipy.fft DCT + inverse pair of float64 vectors of exactly length N; the paper's
receiver needs 25 of them per round, and its denoiser. The signal is the paper's own model: s = N/10, lambda
= 0.05, p01 = beta = 0.01, noise 20 dB below the signal. ``rivals`` needs pylops, spgl1 and scikit-learn.

Everything timed runs on one thread; ``--clock cpu``, the default, counts only the processor time spent on it,
so other processes disturb less. They still share the caches, so nothing is timed alone: one pair is timed
just before every reception and one just after it, the reception counts as a multiple of their mean, and what
is told is the median of these ratios over rounds 21-40, of ``--repeats`` runs the median again. Between two
receptions a signal, an operator and an observation are made: the caches are as cold as in a training.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import fft

import airfeel as af
from airfeel.streams import stream

CHAIN = af.ChainParams(activity=0.05, p01=0.01, beta=0.01, variance=1.0)
NOISE_VAR = CHAIN.activity * CHAIN.variance / 100
OPTIONS: dict[str, dict[str, Any]] = {"plain": {}, "fast": {"fast": True}, "block": {"block": 1 << 14}}
CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}
clock = CLOCKS["cpu"]


def signals(size: int, rounds: int, seed: int = 0, dtype: Any = np.float64) -> Iterator[np.ndarray]:
    """Yield x(t) of the two Markov chains, round by round, so that large N needs no history."""
    rng = stream(seed, "benchmark signal")
    active = rng.random(size, dtype=np.float32) < CHAIN.activity
    amplitude = rng.standard_normal(size, dtype=np.float32)
    for _ in range(rounds):
        yield (active * amplitude).astype(dtype)
        u = rng.random(size, dtype=np.float32)
        active = np.where(active, u >= CHAIN.p01, u < CHAIN.p10)
        innovation = rng.standard_normal(size, dtype=np.float32)
        amplitude = (1 - CHAIN.beta) * amplitude + np.float32(np.sqrt(CHAIN.process_var)) * innovation


def receptions(
    size: int, rounds: int, dtype: Any, option: str, seed: int = 0
) -> Iterator[tuple[np.ndarray, af.Reception]]:
    for t, x in enumerate(signals(size, rounds, seed, dtype)):
        operator = af.PartialDCT(size, size // 10, seed=1000 * seed + t, **OPTIONS[option])
        noise = stream(seed, "benchmark noise", t).standard_normal(operator.rows)
        y = (operator @ x + np.sqrt(NOISE_VAR) * noise).astype(dtype)
        yield x, af.Reception(y, operator, NOISE_VAR)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds a call takes, and what it returns."""
    start = clock()
    result = call()
    return clock() - start, result


def pair_of(size: int) -> Callable[[], np.ndarray]:
    """Return what takes the time D(N)."""
    x = stream(0, "pair").standard_normal(size)
    return lambda: fft.idct(fft.dct(x, norm="ortho"), norm="ortho")


def nmse_db(estimate: np.ndarray, x: np.ndarray) -> float:
    return float(10 * np.log10(np.sum((estimate - x) ** 2) / np.sum(x**2)))


def receive_all(size: int, dtype: Any, option: str, learn: bool, rounds: int, first: int) -> dict[str, float]:
    """Run TSA-GA and time the rounds from ``first`` on, each between two pairs of transforms."""
    receiver = af.TSAGA(CHAIN.activity, CHAIN.p01, CHAIN.beta, learn=learn, variance=1.0)
    state, pair = receiver.init(size), pair_of(size)
    seconds, ratios, errors, iterations = [], [], [], []
    for t, (x, reception) in enumerate(receptions(size, rounds, dtype, option)):
        before, _ = timed(pair)
        taken, (estimate, state) = timed(lambda s=state, r=reception: receiver.receive(s, r))
        after, _ = timed(pair)
        if t >= first:
            seconds.append(taken)
            ratios.append(2 * taken / (before + after))
            errors.append(nmse_db(estimate.mean, x))
            iterations.append(estimate.info.iterations)
    return {
        "seconds": float(np.median(seconds)),
        "pairs": float(np.median(ratios)),
        "nmse_db": float(np.mean(errors)),
        "iterations": float(np.mean(iterations)),
    }


def speed(repeats: int) -> None:
    print("        N precision operator  EM        ms  / D(N)  NMSE dB  iter")
    for size in (7850, 10**6):
        for dtype in (np.float32, np.float64):
            for option in ("plain", "fast", "block"):
                if option == "block" and size < 10**5:
                    continue
                for learn in (False, True):
                    runs = [receive_all(size, dtype, option, learn, 40, 20) for _ in range(repeats)]
                    r = {key: float(np.median([run[key] for run in runs])) for key in runs[0]}
                    what = f"{size:9d} {np.dtype(dtype).name:>9} {option:>8} {'on' if learn else 'off':>3}"
                    cost = f"{1e3 * r['seconds']:9.2f} {r['pairs']:7.1f}"
                    print(f"{what} {cost} {r['nmse_db']:8.2f} {r['iterations']:5.1f}", flush=True)


def growth(figure: str | None) -> None:
    """One process per size, so that the peak memory is its own."""
    print(f"{'N':>10} {'operator':>8} {'s/round':>9} {'/ D(N)':>7} {'peak MB':>8} {'NMSE dB':>8}")
    found: dict[str, list[tuple[int, float]]] = {}
    rows = []
    for size in (10**3, 10**4, 10**5, 10**6, 10**7):
        for option in ("plain", "block"):
            if option == "block" and size < 10**5:
                continue
            call = [sys.executable, __file__, "one", "--size", str(size), "--option", option]
            r = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
            found.setdefault(option, []).append((size, r["seconds"]))
            rows.append({"N": size, "operator": option, "seconds": r["seconds"], "megabytes": r["peak_mb"]})
            cost = f"{r['seconds']:9.4f} {r['pairs']:7.1f} {r['peak_mb']:8.0f}"
            print(f"{size:10d} {option:>8} {cost} {r['nmse_db']:8.2f}", flush=True)
    for option, points in found.items():
        logs = np.log([p for p in points if p[0] >= 10**4])
        slope = np.polyfit(logs[:, 0], logs[:, 1], 1)[0]
        theory = np.polyfit(logs[:, 0], np.log(np.exp(logs[:, 0]) * logs[:, 0]), 1)[0]
        print(f"{option}: time grows as N^{slope:.2f} from N = 1e4 on (N log N would be {theory:.2f})")

    y = stream(0, "blocks").standard_normal(10**6, dtype=np.float32)
    for option in ("plain", "block"):
        operator = af.PartialDCT(10**7, 10**6, seed=0, **OPTIONS[option])
        taken = min(timed(lambda o=operator: o.matvec(o.rmatvec(y)))[0] for _ in range(3))
        print(f"operator and adjoint at N = 1e7, {option}: {taken:.3f} s")
    if figure is not None:
        _draw_growth(rows, figure)


def _draw_growth(rows: list[dict[str, Any]], path: str) -> None:
    """Draw time and memory over N, both axes logarithmic."""
    import altair as alt

    base = alt.Chart(alt.Data(values=rows)).mark_line(point=True).properties(width=300, height=240)
    x = alt.X(
        "N:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e", values=[10**e for e in range(3, 8)])
    )
    colour = alt.Color("operator:N", scale=alt.Scale(scheme="tableau10"))
    panels = [
        base.encode(x, alt.Y(f"{name}:Q", scale=alt.Scale(type="log"), title=title), colour)
        for name, title in (("seconds", "seconds per round"), ("megabytes", "peak memory, MB"))
    ]
    alt.hconcat(*panels).save(path, scale_factor=2)
    print(f"figure: {path}")


def one(size: int, option: str) -> None:
    """Large sizes are timed earlier, to end in time; from round 10 on the work no longer changes much."""
    rounds, first = (12, 10) if size > 10**6 else (24, 20)
    result = receive_all(size, np.float32, option, False, rounds, first)
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


def rivals() -> None:
    """What a user would otherwise pick, on the same reception."""
    print(f"{'N':>6} {'s':>5} {'method':>22} {'NMSE dB':>8} {'ms':>9}")
    for size in (1000, 7850):
        rows = size * 3 // 10
        _rivals_at(size, rows)


def _rivals_at(size: int, rows: int) -> None:
    receiver, plain = af.TSAGA(CHAIN.activity), af.TurboCS(CHAIN.activity)
    state, nothing = receiver.init(size), plain.init(size)
    for t, x in enumerate(signals(size, 25)):
        operator = af.PartialDCT(size, rows, seed=t)
        y = operator @ x + np.sqrt(NOISE_VAR) * stream(0, "rivals", t).standard_normal(rows)
        reception = af.Reception(y, operator, NOISE_VAR)
        seconds, (estimate, state) = timed(lambda s=state, r=reception: receiver.receive(s, r))
    rival_calls = {
        "TSA-GA, round 25": lambda: estimate.mean,
        "Turbo-CS, one round": lambda: plain.receive(nothing, reception)[0].mean,
        **_other_solvers(operator, y, x),
    }
    for name, call in rival_calls.items():
        taken, found = timed(call)
        taken = seconds if name.startswith("TSA") else taken
        print(f"{size:6d} {rows:5d} {name:>22} {nmse_db(found, x):8.2f} {1e3 * taken:9.1f}", flush=True)


def _other_solvers(
    operator: af.PartialDCT, y: np.ndarray, x: np.ndarray
) -> dict[str, Callable[[], np.ndarray]]:
    import pylops
    from pylops.optimization.sparsity import fista, spgl1
    from sklearn.linear_model import Lasso, OrthogonalMatchingPursuit

    class Wrapped(pylops.LinearOperator):
        def _matvec(self, v: np.ndarray) -> np.ndarray:
            return operator.matvec(v)

        def _rmatvec(self, v: np.ndarray) -> np.ndarray:
            return operator.rmatvec(v)

    wrapped = Wrapped(dtype=np.dtype(np.float64), shape=operator.shape)
    sigma = float(np.sqrt(NOISE_VAR * operator.rows))
    solvers: dict[str, Callable[[], np.ndarray]] = {}
    for scale in (1.0, 3.0):
        penalty = scale * 2 * np.sqrt(NOISE_VAR)
        solvers[f"FISTA, eps {penalty:.3f}"] = lambda p=penalty: fista(
            wrapped, y, niter=200, eps=p, tol=1e-5
        )[0]
    solvers["SPGL1"] = lambda: spgl1(wrapped, y, sigma=sigma, iter_lim=200)[0]
    if operator.size <= 1000:
        dense = operator @ np.eye(operator.size)
        count = int(np.count_nonzero(x))
        for alpha in (3e-5, 1e-4):
            solvers[f"Lasso, alpha {alpha:g}"] = lambda a=alpha: (
                Lasso(a, max_iter=5000, fit_intercept=False).fit(dense, y).coef_
            )
        solvers["OMP, true k"] = lambda: (
            OrthogonalMatchingPursuit(n_nonzero_coefs=count, fit_intercept=False).fit(dense, y).coef_
        )
    return solvers


def matrix(size: int) -> None:
    """Print the time of a reception whose matrix is met for the first time, and of a later one."""
    rng, rows = stream(0, "benchmark matrix"), 2 * size // 3
    dense, x = rng.standard_normal((rows, size)), next(signals(size, 1))
    reception = af.Reception(dense @ x + rng.standard_normal(rows), dense, 1.0)
    receiver = af.TSAGA(CHAIN.activity)
    for when in ("first", "later"):
        begun = clock()
        receiver.receive(receiver.init(size), reception)
        print(f"{rows} x {size}, {when}: {clock() - begun:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["speed", "growth", "rivals", "matrix", "one"])
    parser.add_argument("--size", type=int, default=7850)
    parser.add_argument("--option", choices=list(OPTIONS), default="plain")
    parser.add_argument("--figure", help="with growth: where to draw it, a .png or .svg file")
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    parser.add_argument("--repeats", type=int, default=1, help="with speed: runs, whose median counts")
    arguments = parser.parse_args()
    global clock
    clock = CLOCKS[arguments.clock]
    if arguments.what == "one":
        one(arguments.size, arguments.option)
    elif arguments.what == "growth":
        growth(arguments.figure)
    elif arguments.what == "speed":
        speed(arguments.repeats)
    elif arguments.what == "matrix":
        matrix(arguments.size)
    else:
        rivals()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

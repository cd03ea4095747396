"""Processor seconds of a round and of a client's step: airfeel beside other simulators, same PyTorch model.

    python benchmarks/side_by_side.py                   # everything there is; about ten minutes
    python benchmarks/side_by_side.py plain pfl         # only these
    python benchmarks/side_by_side.py plain airfeel --model resnet8 --cohort 10

FedAvg without compression in every simulator, and 25 times less where there is an uplink: one epoch of SGD on
random images, by default a CNN of 1.6 million parameters and users with 50 images of 32 x 32 in colour. For a
clock such data are as good as any. Every system is a process of its own with one thread, and what it starts
counts too; the first round is left out. pfl-research is installed by pip into an environment of its own that
sees this one's PyTorch; Flower is used as it is here, with Ray where that is installed.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
RATE, RATIO = 0.1, 0.04
PFL = "pfl==0.6.0"
MODELS = {  # shape of an image, images of a user, size of a batch
    "wide_cnn": ((3, 32, 32), 50, 10),
    "cnn": ((28, 28), 400, 50),
    "resnet8": ((3, 32, 32), 400, 50),
}
_MARKS = []


class Case(NamedTuple):
    """What every system trains."""

    kind: str
    cohort: int
    rounds: int

    @property
    def samples(self):
        return MODELS[self.kind][1]

    @property
    def batch(self):
        return MODELS[self.kind][2]


def images(case):
    """Return pixels and labels of all users, (cohort, samples, ...)."""
    rng = np.random.default_rng(0)
    size = case.cohort, case.samples
    pixels = rng.integers(0, 256, (*size, *MODELS[case.kind][0]), dtype=np.uint8)
    return pixels, rng.integers(0, 10, size)


def tensors(case):
    """Return the same as tensors, with a channel, and pixels from -2 to 2."""
    import torch

    pixels, labels = images(case)
    pixels = pixels.reshape(*labels.shape, -1, *pixels.shape[-2:])
    return torch.from_numpy(pixels).float().div_(255).mul_(4).sub_(2), torch.from_numpy(labels)


def model(case):
    import torch

    from airfeel.learning import modules

    torch.set_num_threads(1)
    torch.manual_seed(0)
    builders = {
        "wide_cnn": modules.wide_cnn,
        "cnn": modules.small_cnn,
        "resnet8": partial(modules.resnet, blocks=1),
    }
    return builders[case.kind](10)


def local_training(module, inputs, labels, batch):
    """One epoch of plain PyTorch."""
    import torch

    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    order = torch.randperm(len(labels))
    for chosen in order.split(batch):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()


def mark():
    """Note the processor seconds of this process and of all it has started."""
    _MARKS.append(processor_seconds())


def processor_seconds():
    """Return them as the system counts them, children that live included."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(") ")[2].split()
        except OSError:  # it has ended
            continue
        number = int(path.parent.name)
        parents[number], used[number] = int(words[1]), sum(map(int, words[11:15]))
    mine, ours = {os.getpid()}, 0
    while mine:
        ours += sum(used.get(number, 0) for number in mine)
        mine = {number for number, parent in parents.items() if parent in mine}
    return ours / os.sysconf("SC_CLK_TCK")


# --- every function here is one system: it trains, and marks where each round ends ------------------------


def plain(case):
    """A loop over users in PyTorch, which copies and averages: nothing else."""
    inputs, labels = tensors(case)
    module = model(case)
    for _ in range(case.rounds):
        start = {name: value.clone() for name, value in module.state_dict().items()}
        total = {name: value.new_zeros(value.shape) for name, value in start.items()}
        for user in range(case.cohort):
            module.load_state_dict(start)
            local_training(module, inputs[user], labels[user], case.batch)
            for name, value in module.state_dict().items():
                total[name] += (value - start[name]) / case.cohort
        module.load_state_dict({name: start[name] + total[name] for name in start})
        mark()


def airfeel(case, scheme="fedavg"):
    """airfeel's loop."""
    import airfeel as af

    pixels, labels = images(case)
    pixels, labels = pixels.reshape(-1, *pixels.shape[2:]), labels.reshape(-1)
    settings = {
        "scheme": scheme,
        "model.kind": case.kind,
        "model.preset": False,
        "devices.count": case.cohort,
        "devices.samples": case.samples,
        "devices.batch_size": case.batch,
        "devices.local_epochs": 1,
        "devices.learning_rate": RATE,
        "run.threads": 1,
        "run.evaluate_every": 10**6,
        "rounds": case.rounds + 1,  # the last round is evaluated, and not timed
    }
    if scheme == "scheduled":
        settings |= {"uplink.ratio": RATIO, "uplink.memory": "none"}
    data = af.Dataset.from_arrays(pixels, labels, pixels[:10], labels[:10], classes=10)
    for _, _record in zip(range(case.rounds), af.train(settings, dataset=data), strict=False):
        mark()


def airfeel_25(case):
    """airfeel's loop over a Gaussian channel, 25 times fewer symbols."""
    airfeel(case, "scheduled")


def pfl(case):
    """The loop of pfl-research."""
    import types

    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByUser
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    class Marks(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            mark()
            return False, Metrics()

    def loss(self, inputs, labels, eval=False):
        return torch.nn.functional.cross_entropy(self(inputs), labels)

    def metrics(self, inputs, labels, eval=True):
        return {"loss": Weighted(float(loss(self, inputs, labels)), len(labels))}

    inputs, labels = tensors(case)
    module = model(case)
    module.loss, module.metrics = types.MethodType(loss, module), types.MethodType(metrics, module)
    users = list(zip(inputs, labels, strict=True))
    data = FederatedDataset.from_slices(users, get_user_sampler("random", range(case.cohort)))
    backend = SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByUser()])
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=case.rounds,
            evaluation_frequency=10**6,
            train_cohort_size=case.cohort,
            val_cohort_size=0,
        ),
        backend=backend,
        model=PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), 1.0)),
        model_train_params=NNTrainHyperParams(
            local_learning_rate=RATE, local_num_epochs=1, local_batch_size=case.batch
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=10000),
        callbacks=[Marks()],
    )


def client_app(case, mods=()):
    """Return Flower's client: it loads the model, trains an epoch, answers with the model."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app, known = ClientApp(), {}

    @app.train(mods=list(mods))
    def train(message, context):
        if not known:
            known["data"], known["module"] = tensors(case), model(case)
        (inputs, labels), module = known["data"], known["module"]
        user = int(context.node_config["partition-id"])
        module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        local_training(module, inputs[user], labels[user], case.batch)
        found = {
            "arrays": ArrayRecord(module.state_dict()),
            "metrics": MetricRecord({"num-examples": case.samples}),
        }
        return Message(RecordDict(found), reply_to=message)

    return app


def marked(kind):
    """Return a strategy of this kind that marks where rounds end."""

    class Marked(kind):
        def aggregate_train(self, server_round, replies):
            found = super().aggregate_train(server_round, replies)
            mark()
            return found

    return Marked


def flower(case, strategy=None, mods=()):
    """Flower's server and clients in one process, which answer one after another."""
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    from airfeel.flower.local import LocalGrid

    strategy = strategy or marked(FedAvg)(fraction_evaluate=0.0)
    arrays = ArrayRecord(model(case).state_dict())
    strategy.start(LocalGrid(client_app(case, mods), case.cohort), arrays, case.rounds)


def flower_25(case):
    """The same with airfeel's strategy and mod, 25 times fewer numbers."""
    from airfeel.flower import AirAvg, air_mod

    strategy = marked(AirAvg)(scheme="scheduled", ratio=RATIO, fraction_evaluate=0.0)
    flower(case, strategy, [air_mod])


def flower_ray(case):
    """Flower's simulation with Ray, one worker."""
    importlib.import_module("ray")  # Flower would say in many lines that it is missing
    from flwr.app import ArrayRecord
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    server = ServerApp()

    @server.main()
    def main(grid, context):
        strategy = marked(FedAvg)(fraction_evaluate=0.0)
        strategy.start(grid, ArrayRecord(model(case).state_dict()), case.rounds)

    ray = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}
    run_simulation(server, client_app(case), num_supernodes=case.cohort, backend_config=ray)


SYSTEMS = {  # functions above, and what they are called in the table
    "plain": "a loop in PyTorch",
    "airfeel": "airfeel",
    "pfl": "pfl-research",
    "flower": "Flower in one process",
    "flower_ray": "Flower with Ray",
    "airfeel_25": "airfeel, 25 times",
    "flower_25": "Flower in one process with airfeel, 25 times",
}


def environment(folder):
    """Return the interpreter of an environment with pfl-research that sees this one's packages."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "shared.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
        found = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", PFL], capture_output=True, text=True
        )
        if found.returncode:
            raise OSError(f"{PFL} does not install: {found.stderr.strip().splitlines()[-1]}")
    return python


def measured(name, case, peers):
    """Return the processor seconds of each timed round of a system in a process of its own, or why not."""
    try:
        python = environment(peers) if name == "pfl" else sys.executable
    except OSError as error:
        return str(error)
    code = f"import side_by_side as s; s.{name}(s.{case}); s.told()"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    paths = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [python, "-c", code],
        env={**os.environ, **threads, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return np.diff(json.loads(done.stdout.strip().splitlines()[-1])).tolist()


def told():
    """Print the marks as the last line."""
    print(json.dumps(_MARKS), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("systems", nargs="*", help=f"some of {', '.join(SYSTEMS)}; all")
    parser.add_argument("--model", choices=MODELS, default="wide_cnn")
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=Path(tempfile.gettempdir()) / "airfeel-peers")
    options = parser.parse_args()
    if unknown := set(options.systems) - set(SYSTEMS):
        parser.error(f"{', '.join(unknown)}: must be some of {', '.join(SYSTEMS)}")
    print(
        "| simulator | s per round | ms per client step | of a loop in PyTorch |\n|---|---|---|---|",
        flush=True,
    )
    case, loop = Case(options.model, options.cohort, options.rounds + 1), None  # the first round warms up
    for name in options.systems or SYSTEMS:
        began = time.perf_counter()
        found = measured(name, case, options.peers)
        if isinstance(found, str):
            print(f"| {SYSTEMS[name]} | not measured: {found} |", flush=True)
            continue
        seconds = float(np.median(found))
        loop = seconds if name == "plain" else loop
        share = f"{seconds / loop:.2f}" if loop else ""
        step = 1000 * seconds / (case.cohort * case.samples / case.batch)
        print(f"| {SYSTEMS[name]} | {seconds:.2f} | {step:.1f} | {share} |", flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

"""The server: FedAvg, or AirAvg with a scheme."""

import torch
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from airfeel.flower import AirAvg
from flower_mnist import task

app = ServerApp()


@app.main()
def main(grid, context):
    """Train, and say after every round what was learned and what it cost."""
    train(grid, context.run_config)


def train(grid, settings):
    """Return the result of a training, and the strategy that brought it about."""
    strategy = choose(settings)
    data = task.load(settings["dataset"])
    images, labels = task.tensors(data.test_inputs, data.test_labels)
    torch.manual_seed(settings["seed"])
    model = task.build(settings["dataset"], settings["hidden"])

    def evaluate(round, arrays):
        if round % settings["evaluate-every"]:
            return None
        model.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = task.evaluate(model, images, labels)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    first = ArrayRecord(model.state_dict())
    given = {"num_rounds": settings["rounds"], "timeout": settings["timeout"], "evaluate_fn": evaluate}
    return strategy.start(grid, first, **given), strategy


def choose(settings):
    """Return the strategy that the settings name."""
    scheme, ratio, channel = (settings[name] for name in ("scheme", "ratio", "channel"))
    asked = {"fraction_train": settings["fraction"], "fraction_evaluate": 0.0}
    given = {name: settings[name] for name in ("seed", "downlink")} | asked
    given["checkpoint"] = settings["checkpoint"] or None
    if scheme == "fedavg":
        return FedAvg(**asked)
    if not scheme:
        return AirAvg(compression=settings["compression"], **given)
    # Top-k alone has a share k/N. A DCT of 19,440 numbers is several times faster than one of 19,334.
    options = {name: {"sparsity": ratio} for name in ("error_free", "stc", "top_k_coded")}
    options["tsa_ga"] = {"fast": True}
    return AirAvg(
        scheme,
        ratio,
        None if channel == "none" else channel,
        options=options.get(scheme),
        **given,
    )

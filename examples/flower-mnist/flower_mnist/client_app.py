"""The client: an ordinary Flower app, but for ``mods=[air_mod]``."""

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from airfeel.flower import air_mod
from flower_mnist import task

app = ClientApp()


@app.train(mods=[air_mod])
def train(message, context):
    """Train the global model on this client's images."""
    settings, node = context.run_config, context.node_config
    data = task.load(settings["dataset"])
    given = (settings[name] for name in ("dataset", "samples", "classes", "alpha", "seed"))
    held = task.partition(node["num-partitions"], *given)[node["partition-id"]]
    images, labels = task.tensors(data.train_inputs[held], data.train_labels[held])

    model = task.build(settings["dataset"], settings["hidden"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    round = message.content["config"]["server-round"]
    loss = task.train(
        model,
        images,
        labels,
        rate=settings["learning-rate"],
        batch=settings["batch-size"],
        epochs=settings["local-epochs"],
        seed=1_000_000 * settings["seed"] + 1000 * round + node["partition-id"],
    )
    metrics = MetricRecord({"num-examples": len(labels), "train-loss": loss})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)

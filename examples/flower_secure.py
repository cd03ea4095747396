"""Secure aggregation in Flower: the server learns the sum of what the clients send, and no client's part.

    python examples/flower_secure.py

All clients send the same coefficients (``scheduled``), as whole numbers under masks: client a adds, and
client b takes away, what a stream cipher draws from a secret that only the two share. In the sum the masks
are gone. Keys are new in every round. If a client does not answer, the others reveal the seeds of their masks
with it, of this round alone.

This keeps a client's update from a server that follows the protocol and looks at all it gets. It does not
keep it from one that lies: it could call a client missing whose message it has. All weights are equal, and
who sends how much metadata is seen.
"""

import logging

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import airfeel as af
from airfeel.flower import AirAvg, air_mod, wire
from airfeel.flower.local import LocalGrid
from airfeel.flower.state import Layout

SECRET, SECURE, MASKED = "secure-secret", "secure", "secure-masked"
SCHEME = wire.build("scheduled", {"memory": "none"})


def seed_with(private, public, round, pair):
    """Return the seed of two clients' mask in one round."""
    shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    info = f"airfeel example, round {round}, nodes {min(pair)} and {max(pair)}".encode()
    return HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(shared)


def mask(seed, size):
    """Return whole numbers modulo 2^32 that are random to whoever does not know the seed, used once."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(4 * size)), "<u4")


# --- the client ---


def secure_mod(message, context, call_next):
    """Send the coefficients of the update as masked whole numbers in place of the trained model."""
    told, own = message.content[SECURE], context.state[SECRET]
    if own["round"] != told["round"] or own["used"]:
        raise ValueError(f"round {told['round']}: there is no fresh key for it here")
    model, plan = wire.from_record(message.content["arrays"]), wire.read_plan(message.content)
    layout = Layout.of(model, ())
    message.content = RecordDict({name: message.content[name] for name in ("arrays", "config")})
    reply = call_next(message, context)
    update = layout.flat(model) - layout.flat(wire.from_record(reply.content["arrays"]))
    signal = SCHEME.encode(plan, {}, update.astype(np.float32)[None]).signal[0].astype(np.float64)
    whole = np.rint(np.clip(signal, -told["limit"], told["limit"]) / told["step"]).astype(np.int64)
    masked = whole.astype(np.uint32)  # modulo 2^32
    me = context.node_id
    for node, public in zip(told["nodes"], told["keys"], strict=True):
        if node != me:
            drawn = mask(seed_with(own["private"], public, told["round"], (me, node)), len(masked))
            masked = masked + drawn if me < node else masked - drawn
    own["used"], own["nodes"], own["keys"] = True, told["nodes"], told["keys"]
    context.state[SECRET] = own
    reply.content = RecordDict(
        {MASKED: wire.to_record({"masked": masked}), "metrics": reply.content["metrics"]}
    )
    return reply


def answer(message, context):
    """Make a key for a round, or reveal once the seeds of masks with less than half of the clients."""
    told = message.content[SECURE]
    if told["step"] == "key":
        key = X25519PrivateKey.generate()
        facts = {"round": told["round"], "private": key.private_bytes_raw(), "used": False, "revealed": False}
        context.state[SECRET] = ConfigRecord(facts)
        found = {"key": key.public_key().public_bytes_raw()}
    else:
        own = context.state[SECRET]
        keys = dict(zip(own["nodes"], own["keys"], strict=True))
        if own["round"] != told["round"] or own["revealed"] or 2 * len(told["missing"]) >= len(keys):
            raise ValueError(f"round {told['round']}: nothing is revealed")
        own["revealed"] = True
        context.state[SECRET] = own
        pairs = [(context.node_id, node) for node in told["missing"]]
        found = {"seeds": [seed_with(own["private"], keys[b], told["round"], (a, b)) for a, b in pairs]}
    return Message(RecordDict({SECURE: ConfigRecord(found)}), reply_to=message)


# --- the server ---


class SecureAvg(FedAvg):
    """Federated averaging of masked coefficients; ``limit`` is the largest value a coefficient may have."""

    def __init__(self, ratio=0.1, limit=4.0, seed=0, **fedavg):
        super().__init__(**fedavg)
        self.ratio, self.limit, self.seed = ratio, limit, seed
        self.state, self.heard, self.up = None, [], []

    def configure_train(self, server_round, arrays, config, grid):
        """Ask for keys; then announce the plan, everybody's keys, and the step of the whole numbers."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        asked = {"step": "key", "round": server_round}
        ask = [
            Message(RecordDict({SECURE: ConfigRecord(asked)}), m.metadata.dst_node_id, "query")
            for m in messages
        ]
        keys = self._said(grid.send_and_receive(ask), "key")
        self.layout, self.grid, self.round = Layout.of(wire.from_record(arrays), ()), grid, server_round
        self.theta = self.layout.flat(wire.from_record(arrays))
        if self.state is None:
            symbols = max(1, round(self.ratio * self.layout.size))
            self.state = SCHEME.init(self.layout.shapes, af.Setting(len(keys), symbols))
        self.plan, self.nodes = SCHEME.plan(self.state, self.seed, server_round), sorted(keys)
        self.step = self.limit * len(keys) / 2**30  # so that no sum leaves the range of 32 bits
        told = {"round": server_round, "limit": self.limit, "step": self.step}
        told |= {"nodes": self.nodes, "keys": [keys[node] for node in self.nodes]}
        common = {**wire.plan_records(self.plan), SECURE: ConfigRecord(told)}
        chosen = [message for message in messages if message.metadata.dst_node_id in keys]
        for message in chosen:
            message.content = RecordDict({**message.content, **common})
        return chosen

    def aggregate_train(self, server_round, replies):
        """Add up what came, take off the masks of those who did not answer, and decode the mean."""
        there = [reply for reply in replies if not reply.has_error()]
        heard = sorted(reply.metadata.src_node_id for reply in there)
        rows = [wire.from_record(reply.content[MASKED])["masked"] for reply in there]
        self.up.append(sum(wire.message_bytes(reply) for reply in there))
        if not rows:
            return None, None
        total = np.sum(rows, axis=0, dtype=np.uint32)
        if missing := [node for node in self.nodes if node not in heard]:
            told = ConfigRecord({"step": "reveal", "round": server_round, "missing": missing})
            ask = [Message(RecordDict({SECURE: told}), node, MessageType.QUERY) for node in heard]
            seeds = self._said(self.grid.send_and_receive(ask), "seeds")
            if set(seeds) != set(heard):
                return None, None  # the masks cannot be taken off: the model stays
            for node in heard:
                for gone, seed in zip(missing, seeds[node], strict=True):
                    drawn = mask(seed, len(total))
                    total = total - drawn if node < gone else total + drawn
        self.heard.append(heard)
        mean = total.view(np.int32) * self.step / len(heard)
        estimate, self.state = SCHEME.decode(self.state, self.plan, af.Heard(mean, noise_var=0.0))
        self.theta = self.theta - estimate.mean
        arrays = wire.to_record(self.layout.arrays(self.theta, {}))
        metrics = [RecordDict({"metrics": reply.content["metrics"]}) for reply in there]
        return arrays, self.train_metrics_aggr_fn(metrics, self.weighted_by_key)

    def _said(self, replies, name):
        told = [reply for reply in replies if not reply.has_error()]
        return {reply.metadata.src_node_id: reply.content[SECURE][name] for reply in told}


# --- an app that learns something ---


def app(mods=(secure_mod,)):
    """Return a client that goes a part of the way to its own goal."""
    made = ClientApp()

    @made.train(mods=list(mods))
    def train(message, context):
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        draw = np.random.default_rng(context.node_config["partition-id"])
        moved = {k: a + 0.3 * (1 + 0.5 * draw.standard_normal(a.shape) - a) for k, a in model.items()}
        arrays = ArrayRecord({name: Array(array.astype(np.float32)) for name, array in moved.items()})
        return Message(
            RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message
        )

    made.query()(answer)
    return made


class Counting(LocalGrid):
    """A grid that counts the bytes of all messages."""

    up = down = 0

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.down += sum(wire.message_bytes(message) for message in messages)
        replies = super().send_and_receive(messages)
        self.up += sum(wire.message_bytes(reply) for reply in replies)
        return replies


def main(rounds=30, clients=10):
    """Train with masks and without; return how far the first model is from the common goal."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    start, errors, quiet = np.zeros((100, 200), np.float32), [], {"fraction_evaluate": 0.0}
    plain = AirAvg("scheduled", 0.1, clip=None, **quiet)
    for words, strategy, mod in (("masked", SecureAvg(0.1, **quiet), secure_mod), ("plain", plain, air_mod)):
        grid = Counting(app([mod]), clients)
        result = strategy.start(grid, ArrayRecord({"w": Array(start)}), rounds)
        errors.append(float(np.abs(result.arrays["w"].numpy() - 1).mean()))
        up, down = (count / rounds / clients for count in (grid.up, grid.down))
        told = f"{up:,.0f} bytes up and {down:,.0f} down for a client in a round"
        print(f"{words}: mean distance to the common goal {errors[-1]:.3f}, {told}")
    return errors[0]


if __name__ == "__main__":
    main()

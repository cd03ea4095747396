"""What cannot be is refused in one sentence, when a strategy is built or before anything is sent."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.serverapp import strategy as flower

import flower_apps as apps
from airfeel.flower import Air, AirAvg
from airfeel.flower.local import LocalGrid
from airfeel.learning.optimizers.descent import Adam, GradientDescent
from airfeel.radio.power import LeastError, Selection
from airfeel.schemes.common_k import CommonK

NODES = 4


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"scheme": "tsaga"}, "scheme = 'tsaga': must be one of .* did you mean 'tsa_ga'"),
        ({"ratio": 1.5}, "ratio = 1.5: must be a finite number > 0 and <= 1"),
        ({"options": {"sparsty": 0.1}}, r"options\['sparsty'\] = 0.1: .* did you mean 'sparsity'"),
        ({"options": {"fast": "yes"}}, r"options\['fast'\] = 'yes': must be True or False"),
        ({"options": {"sparsity": 2.0}}, "sparsity = 2.0: must be a finite number > 0 and <= 1"),
        ({"scheme": CommonK(), "options": {"order": "turns"}}, "options = .*: must not be given"),
        ({"channel": 3}, "channel = 3: must be None"),
        ({"channel": "gausian"}, "did you mean 'gaussian'"),
        ({"exchange": "three"}, "exchange = 'three': must be one of"),
        ({"exchange": "two"}, "exchange = 'two': is for a channel on which"),
        ({"minimum": 0}, "minimum = 0: must be a whole number >= 1"),
        ({"power": -1.0, "channel": "gaussian"}, "power = -1"),
        *(
            (
                {"power": power, "channel": "gaussian"},
                "power = .*must be a number or a policy that treats all",
            )
            for power in (LeastError(500.0), Selection(500.0), "500")
        ),
        ({"exact": "*running_*"}, r"exact = '\*running_\*': must be a list"),
        ({"seed": -1}, "seed = -1"),
        ({"bits": 3}, "bits = 3: must be 1, 2, 4, 8, 16 or 32"),
        ({"bits": True}, "bits = True: must be 1"),
        ({"bits": "8"}, "bits = '8': must be 1"),
        ({"bits": 8, "channel": "gaussian"}, "bits = 8: is for a digital uplink: a radio adds signals up"),
        ({"bits": 8, "scheme": "eight_bit"}, "bits = 8: is not for EightBit, which writes its messages"),
        *(
            ({"compression": 100, name: value}, f"compression = 100: chooses the scheme .* leave out {name}")
            for name, value in {"scheme": "scheduled", "ratio": 0.1, "bits": 8, "channel": "gaussian"}.items()
        ),
        ({"compression": 100, "options": {"sparsity": 0.1}}, "without a radio; leave out options"),
        *(
            ({"compression": number}, f"compression = {number!r}: must be a finite number >= 1")
            for number in (0.5, float("inf"), "100")
        ),
        ({"downlink": 3}, "downlink = 3: must be 1, 2, 4, 8, 16 or 32"),
        ({"downlink": "changed"}, "needs a scheme in which all clients send the same coefficients"),
        ({"downlink": "changed", "compression": 100}, "all clients send the same coefficients"),
        ({"downlink": "changed", "scheme": "scheduled", "optimizer": Adam()}, "plain gradient descent"),
        ({"downlink": "changes"}, "must be 'changed', or 1, 2, 4, 8, 16 or 32 bits"),
    ],
)
def test_a_mistake_is_one_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        AirAvg(**given)


class OwnMean(flower.FedAvg):
    def aggregate_train(self, server_round, replies):
        return super().aggregate_train(server_round, list(replies)[:1])


def clipped(inner):
    return flower.DifferentialPrivacyClientSideFixedClipping(inner, 1.0, 0.5, NODES)


WRAPPERS = [
    clipped,
    lambda air: flower.DifferentialPrivacyServerSideFixedClipping(air, 1.0, 0.5, NODES),
    lambda air: flower.DifferentialPrivacyClientSideAdaptiveClipping(air, 0.1, NODES),
    lambda air: flower.DifferentialPrivacyServerSideAdaptiveClipping(air, 0.1, NODES),
]


@pytest.mark.parametrize(
    ("strategy", "given", "sentence"),
    [
        (flower.FedMedian(), {"channel": "gaussian"}, "channel = 'gaussian': adds signals up, and FedMedian"),
        (flower.Krum(), {"scheme": "tsa_ga"}, "scheme = 'TsaGa': must be one in which all clients send the"),
        (flower.Bulyan(), {"compression": 25}, "scheme = 'Split': must be one in which all clients send the"),
        (flower.QFedAvg(0.5), {"ratio": 0.1}, "ratio = 0.1: must be 1 for QFedAvg"),
        (flower.FedAdam(), {"rate": 0.1}, "rate = 0.1: must be left out beside FedAdam"),
        (flower.FedAvgM(), {"checkpoint": "a.npz"}, "checkpoint = 'a.npz': has no place for what FedAvgM"),
        (
            flower.FedAvg(),
            {"scheme": "scheduled", "optimizer": GradientDescent(0.9)},
            "momentum = 0.9: .* clients' own",
        ),
        (flower.FedXgbBagging(), {}, "strategy = 'FedXgbBagging': must be one of Flower's FedAvg, FedProx"),
        (OwnMean(), {}, "strategy = 'OwnMean': must be one of Flower's"),
        (flower.FedAdam, {}, r"strategy = <class .*FedAdam'>: must be an object: FedAdam\(\.\.\.\)"),
        (AirAvg(), {}, "strategy = 'AirAvg': has a compressed uplink already"),
        (3, {}, "strategy = 'int': must be one of"),
        (clipped(flower.FedMedian()), {}, r"Clipping\(FedMedian\)': noise is for a mean"),
        (clipped(flower.FedAdam()), {}, r"Clipping\(FedAdam\)': noise is for a mean"),
        (clipped(flower.FedAvg()), {"channel": "gaussian"}, "channel = 'gaussian': adds signals up"),
        (clipped(flower.FedAvg()), {"scheme": "error_free"}, "scheme = 'ErrorFree': must be one in which"),
        (clipped(flower.FedAvg()), {"audit": True}, "audit = True: tells what .* is to keep private"),
        (
            WRAPPERS[2](flower.FedAvg()),
            {"checkpoint": "a.npz"},
            "checkpoint = 'a.npz': has no place for what",
        ),
        (
            WRAPPERS[1](flower.FedAvg()),
            {},
            "strategy = 'DifferentialPrivacyServerSideFixedClipping': must be one of .* client-side",
        ),
    ],
)
def test_what_cannot_be_together_is_refused_when_it_is_built(strategy, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Air(strategy, **given)


@pytest.mark.parametrize("other", [flower.Krum, flower.FedAdam, flower.FedMedian, flower.FedAvg])
def test_a_class_of_two_strategies_is_refused(other):
    for bases in ((AirAvg, other), (other, AirAvg), (Air, other)):
        with pytest.raises(ValueError, match=rf"class Both: .* write Air\({other.__name__}"):
            type("Both", bases, {})
    assert issubclass(type("One", (AirAvg,), {}), AirAvg)


def start(strategy, model):
    return strategy.start(LocalGrid(apps.app(apps.drift), NODES), apps.record(model), 3)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_outside_is_refused_before_anything_is_sent(wrapper):
    with pytest.raises(ValueError, match=r"AirAvg must be the outermost strategy: write Air\(Wrapper"):
        start(wrapper(AirAvg()), apps.model())


@pytest.mark.parametrize(
    ("strategy", "model", "sentence"),
    [
        (lambda: AirAvg(), {"steps": np.arange(3)}, "no floating arrays to compress"),
        (
            lambda: Air(clipped(flower.FedAvg()), "common_k", 0.5),
            {"w": np.ones(30, np.float32), "running_mean": np.ones(3, np.float32)},
            r"the arrays \['running_mean'\] travel whole and nothing keeps them",
        ),
        (
            lambda: Air(flower.DifferentialPrivacyClientSideFixedClipping(flower.FedAvg(), 1.0, 0.5, 3)),
            {"w": np.ones(30, np.float32)},
            "4 clients are asked, num_sampled_clients = 3: must be at least",
        ),
    ],
)
def test_models_and_numbers_of_clients_that_cannot_be_are_refused(strategy, model, sentence):
    with pytest.raises(ValueError, match=sentence):
        start(strategy(), model)

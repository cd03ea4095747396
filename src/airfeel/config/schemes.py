"""The named schemes: each one a configuration of the same parts, with the paper's settings as defaults."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

_RADIO = ("uplink.ratio", "uplink.power", "uplink.policy", "channel")
_OPERATOR = ("uplink.signs", "uplink.fast")
_CHAINS = (
    "receiver.p01",
    "receiver.beta",
    "receiver.learn",
    "receiver.window",
    "receiver.learn_from",
    "receiver.amplitude_message",
    "receiver.doubt",
)


@dataclass(frozen=True, slots=True)
class Scheme:
    """Which parts a scheme is made of.

    ``sparsity`` to ``max_iterations`` are defaults that a configuration may change; the fields before are
    what the name stands for. ``ignores`` lists the configuration keys (or whole sections) that cannot change
    its result, so that two runs that differ only there are one run.
    """

    summary: str
    uplink: Literal["none", "over_the_air", "common_k"] = "over_the_air"
    matrix: Literal["dct", "gaussian"] = "dct"
    receiver: Literal["tsaga", "turbo_cs", "amp"] = "tsaga"
    support_chain: bool = True
    amplitude_chain: bool = True
    denoiser: Literal["soft", "mmse"] = "soft"
    sparsity: float = 0.2
    signs: bool = False
    max_iterations: int = 25
    ignores: tuple[str, ...] = ()


SCHEMES: MappingProxyType[str, Scheme] = MappingProxyType(
    {
        "error_free": Scheme(
            "sparsified gradients, summed without radio: what the receivers try to reach",
            uplink="none",
            ignores=(*_RADIO, *_OPERATOR, "receiver"),
        ),
        "dense": Scheme(
            "whole gradients, summed without radio: plain federated learning",
            uplink="none",
            sparsity=1.0,
            ignores=(*_RADIO, *_OPERATOR, "receiver", "uplink.sparsity"),
        ),
        "tsa_ga": Scheme("the paper's receiver: partial DCT, support and amplitude chains, EM"),
        "tsa_ga_no_support": Scheme(
            "TSA-GA without the support chain", support_chain=False, ignores=("receiver.p01",)
        ),
        "tsa_ga_no_amplitude": Scheme(
            "TSA-GA without the amplitude chain",
            amplitude_chain=False,
            ignores=("receiver.beta", "receiver.amplitude_message"),
        ),
        "tsa_ga_tuned": Scheme(
            "TSA-GA with random signs in the DCT and hardly any sparsification", sparsity=0.9, signs=True
        ),
        "turbo_cs": Scheme(
            "an independent Turbo-CS decoder in every round", receiver="turbo_cs", ignores=_CHAINS
        ),
        "a_dsgd": Scheme(
            "A-DSGD: Gaussian matrix and soft-threshold AMP",
            matrix="gaussian",
            receiver="amp",
            sparsity=0.05,
            max_iterations=40,
            ignores=(*_CHAINS, *_OPERATOR, "receiver.activity", "receiver.precision"),
        ),
        "a_dsgd_mmse": Scheme(
            "A-DSGD with a Bernoulli-Gaussian (MMSE) denoiser in AMP",
            matrix="gaussian",
            receiver="amp",
            denoiser="mmse",
            sparsity=0.05,
            max_iterations=40,
            ignores=(*_CHAINS, *_OPERATOR, "receiver.precision"),
        ),
        "common_k": Scheme(
            "all devices send the same coordinates, each once per N/s rounds; the sum is read directly",
            uplink="common_k",
            ignores=(*_OPERATOR, "receiver", "uplink.sparsity"),
        ),
    }
)

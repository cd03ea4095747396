"""By which method the paper's schemes recover the aggregate, as far as the theory can follow."""

from types import MappingProxyType

from airfeel.theory.planner import Method

METHODS: MappingProxyType[str, Method] = MappingProxyType(
    {
        "tsa_ga": Method(),
        "tsa_ga_tuned": Method(),
        "tsa_ga_no_support": Method(support_chain=False),
        "tsa_ga_no_amplitude": Method(amplitude_chain=False),
        "turbo_cs": Method(support_chain=False, amplitude_chain=False),
        "a_dsgd": Method(denoiser="soft"),
        "a_dsgd_mmse": Method(denoiser="mmse"),
    }
)


def is_dense(scheme: str) -> bool:
    """Whether a scheme measures with a Gaussian matrix, whose columns have unit norm, and recovers by AMP."""
    return scheme in METHODS and METHODS[scheme].denoiser is not None

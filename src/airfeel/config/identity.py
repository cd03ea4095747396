"""What a run is: the keys that determine its result, and their hash, which names its folder.

A key that was added after version 0.1 is hashed only where it differs from its default, so that a new key
changes no hash. Instead a part whose unchanged options give other results raises its revision, which is
hashed from 2 on. The table ``[identity]`` of ``config.toml`` lists the hashed keys, so that the hash can be
recomputed from the file alone.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Version 0.1 hashed these keys even where they had their defaults.
ALWAYS = frozenset(
    [
        *("scheme", "dataset", "rounds", "seed", "partition.kind"),
        *("model.kind", "model.l2", "model.device", "run.evaluate_every", "run.record_aggregates"),
        *(f"devices.{key}" for key in ("count", "samples", "local_steps", "learning_rate")),
        *(f"devices.{key}" for key in ("spread", "participation", "dropout")),
        *(f"uplink.{key}" for key in ("ratio", "sparsity", "power", "policy", "signs", "fast")),
        *(f"channel.{key}" for key in ("kind", "noise_var")),
        *(f"receiver.{key}" for key in ("activity", "p01", "beta", "learn", "window", "learn_from")),
        *(f"receiver.{key}" for key in ("amplitude_message", "doubt")),
        *(f"receiver.{key}" for key in ("max_iterations", "tolerance", "precision")),
        *(f"server.{key}" for key in ("optimizer", "learning_rate", "momentum")),
        *(f"server.{key}" for key in ("schedule", "schedule_every", "schedule_factor")),
    ]
)
# And these with the channel that had them; others may have learned them since.
OF_FADING = frozenset(f"channel.{key}" for key in ("threshold", "rician", "csi_error", "phase_error"))
# In version 0.1 an unset partition.pool meant the first 50,000 samples. It still does for these data sets;
# for all others it means the whole training set, which is hashed as a revision of that key.
FIRST_POOL = frozenset(["mnist", "fashion-mnist"])


def always(channel: str) -> frozenset[str]:
    """Return the keys that are hashed even where they have their defaults, with a channel of this kind."""
    return ALWAYS | OF_FADING if channel == "fading" else ALWAYS


def digest(identity: Mapping[str, Any]) -> str:
    """Return the short hash of the keys and values that determine a result."""
    text = json.dumps(dict(identity), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def recorded_digest(settings: Mapping[str, Any]) -> str | None:
    """Return the hash of the settings of a ``config.toml``, given by dotted key, by its own ``[identity]``.

    None for a file of version 0.1, which does not say which keys were hashed.
    """
    keys = settings.get("identity.keys")
    if not isinstance(keys, list):
        return None
    revisions = {
        key.removeprefix("identity."): value
        for key, value in settings.items()
        if key.startswith("identity.revision.")
    }
    return digest({key: settings.get(key) for key in keys} | revisions)

"""Log a run to TensorBoard: a run is a plain iterator, so any tracker is a loop of a few lines.

pip install airfeel tensorboardX
python examples/tensorboard_log.py logs scheme=scheduled rounds=100
tensorboard --logdir logs
"""

import sys
from dataclasses import asdict

from tensorboardX import SummaryWriter

import airfeel as af
from airfeel.config import parse_override


def log_run(config, folder):
    """Write every number of every round, under its name in the record."""
    with SummaryWriter(folder) as writer:
        writer.add_text("config", f"```toml\n{config.to_toml()}```")
        for record in af.train(config):
            for name, value in asdict(record).items():
                if isinstance(value, int | float) and name != "round":
                    writer.add_scalar(name, value, record.round)


if __name__ == "__main__":
    folder, *settings = sys.argv[1:]
    log_run(af.load_config(None, dict(parse_override(setting) for setting in settings)), folder)

"""Log a run to Weights & Biases; with WANDB_MODE=offline everything stays on this machine.

pip install . wandb
WANDB_MODE=offline python examples/wandb_log.py my-project scheme=scheduled rounds=100
"""

import sys
from dataclasses import asdict

import wandb

import airfeel as af
from airfeel.config import parse_override


def log_run(config, project):
    """Hand over the settings and every round; what does not exist in a round is left out."""
    name = f"{config.scheme}-{config.digest()}"
    with wandb.init(project=project, name=name, config=config.identity()) as run:
        for record in af.train(config):
            numbers = {name: value for name, value in asdict(record).items() if value is not None}
            run.log(numbers, step=record.round)


if __name__ == "__main__":
    project, *settings = sys.argv[1:]
    log_run(af.load_config(None, dict(parse_override(setting) for setting in settings)), project)

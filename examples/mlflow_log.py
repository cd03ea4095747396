"""Log a run to MLflow, on this machine or on a tracking server: the loop is the same.

pip install . mlflow-skinny sqlalchemy alembic
python examples/mlflow_log.py sqlite:///mlflow.db scheme=scheduled rounds=100
"""

import sys
from dataclasses import asdict

import mlflow

import airfeel as af
from airfeel.config import parse_override


def log_run(config, address):
    """Write the settings as parameters, and every number of every round under its name in the record."""
    mlflow.set_tracking_uri(address)
    mlflow.set_experiment("airfeel")
    with mlflow.start_run(run_name=f"{config.scheme}-{config.digest()}"):
        mlflow.log_params(config.identity())
        for record in af.train(config):
            values = asdict(record).items()
            numbers = {name: value for name, value in values if isinstance(value, int | float)}
            mlflow.log_metrics(numbers, step=record.round)


if __name__ == "__main__":
    address, *settings = sys.argv[1:]
    log_run(af.load_config(None, dict(parse_override(setting) for setting in settings)), address)

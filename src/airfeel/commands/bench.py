"""``airfeel bench``: schemes in the settings of the leaderboard, a scheme of your own among them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from airfeel.commands import HERE, Computing, Settings, Whole, carry_out_all, check_counts, show

if TYPE_CHECKING:
    from airfeel.lab.plan import Experiment

LETTERS = {"a": "mnist", "b": "cifar", "c": "text", "d": "paper"}


def bench(
    schemes: Annotated[list[str], Parameter(negative=())],
    /,
    *,
    setting: str = "mnist",
    settings: Settings = None,
    rounds: Whole = None,
    seeds: Whole = None,
    computing: Computing = HERE,
) -> None:
    """Give schemes, such as your own, their rows on the leaderboard of a setting.

    Computes training without radio and each of these schemes under the setting's circumstances, with its
    seeds, and prints their rows. Killed or interrupted, the same command computes only what is missing.

    Example: airfeel bench mine:Scheme --setting mnist --set uplink.newest=0.5

    Parameters
    ----------
    schemes
        Names of schemes, or package.module:Name.
    setting
        mnist, cifar, text or paper; or a letter, a to d.
    settings
        key=value for all of these schemes, such as an option or a rate of their own.
    rounds
        Rounds of every run.
    seeds
        Number of seeds.
    """
    from airfeel.lab.exhibits.leaderboard import leaderboard_rows
    from airfeel.lab.plan import ResultsFolder
    from airfeel.lab.table import Results
    from airfeel.lab.words import text_table

    check_counts(rounds=rounds, seeds=seeds, workers=computing.workers)
    chosen = _experiment(schemes, setting, settings).shortened(rounds, seeds)
    carry_out_all([chosen], computing)
    if not computing.dry_run:
        found = Results(ResultsFolder(computing.out))
        begun = next(one for one in found.folder.experiments()[0] if one.experiment.name == chosen.name)
        show(text_table(leaderboard_rows(found.of(begun))))


def _experiment(schemes: Sequence[str], setting: str, settings: Sequence[str] | None = None) -> "Experiment":
    """Return the setting's experiment with training without radio and these schemes alone."""
    from airfeel.config import mistakes, parse_override
    from airfeel.lab.charts import reference
    from airfeel.lab.figures import BENCH
    from airfeel.lab.plan import shipped

    name = f"bench-{LETTERS.get(setting, setting)}"
    if name not in BENCH:
        known = ", ".join(one.removeprefix("bench-") for one in BENCH)
        raise ValueError(f"--setting {setting}: must be one of {known}")
    own = mistakes.nest(dict(parse_override(one) for one in settings or []))
    if "scheme" in own:
        raise ValueError(f"--set scheme={own['scheme']}: must not be given, as SCHEMES names the schemes")
    whole = shipped(name)
    ideal = reference({curve["label"]: curve["scheme"] for curve in whole.curves})
    kept = [curve for curve in whole.curves if curve["label"] == ideal]
    names = tuple(dict.fromkeys(schemes))
    own_curves = [{"label": scheme, **own, "scheme": scheme} for scheme in names]
    return whole.model_copy(
        update={
            "name": f"{name}-own",
            "curves": (*kept, *own_curves),
            "subjects": names,
            "left_out": (),
        }
    )

"""``airfeel list``: the words a configuration may use."""

from airfeel.learning.sources import CATALOGUE


def listing() -> None:
    """Show the data sets by name.

    Example: airfeel list
    """
    print("data sets")
    for dataset in CATALOGUE.values():
        print(f"  {dataset.name:<20} {dataset.description}")

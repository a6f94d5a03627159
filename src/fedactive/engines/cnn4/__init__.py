"""cnn4, the paper's architecture, trained for all clients at once with its own kernels."""

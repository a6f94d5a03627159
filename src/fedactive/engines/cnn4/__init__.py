"""cnn4, the paper's architecture, trained for all clients at once by kernels of its own."""

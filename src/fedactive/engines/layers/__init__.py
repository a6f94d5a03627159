"""Models made of known layers: their operations, and Triton kernels that train them for all clients at once."""

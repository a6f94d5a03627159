"""Models made of known layers: what they are made of, and kernels that train them for all clients at once."""

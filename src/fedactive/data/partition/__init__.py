"""A dataset split over clients: as the data say (`given`), or by Dirichlet class shares.

Of the latter `transport` is exact, and `reference` is as published:

Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix A.
"""

from fedactive.data.partition.given import given, read_clients
from fedactive.data.partition.reference import ReferenceSplit, reference
from fedactive.data.partition.transport import transport

__all__ = ["ReferenceSplit", "given", "read_clients", "reference", "transport"]

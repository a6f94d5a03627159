"""A dataset split over clients by Dirichlet class shares: `transport`, exact, and `reference`, as published.

Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix A.
"""

from fedactive.data.partition.reference import ReferenceSplit, reference
from fedactive.data.partition.transport import transport

__all__ = ["ReferenceSplit", "reference", "transport"]

"""The model out again: a run's global model as one file that others can use, its card, and predictions."""

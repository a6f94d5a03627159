"""What a user's own project sees of our types; `make release` checks it with mypy and the installed wheel.

Where types were not seen, everything would be `Any`: `assert_type` would complain, and so would the comments
about errors that mypy is to find.
"""

from typing import assert_type

import pandas as pd

import fedactive


class Watch(fedactive.Callback):
    def on_round(self, al_round: int, labelled: int, accuracy: float) -> None:
        print(f"{labelled} labels: {accuracy:.1%}")


experiment = fedactive.Experiment(dataset="digits", rounds=2)
result = fedactive.run(experiment, fedactive.Silent(), [Watch()])
assert_type(result, fedactive.Result)
assert_type(result.curves(), pd.DataFrame)
results = fedactive.compare(dataset="digits", strategy=["logo", "random"])
assert_type(results, fedactive.Results)
assert_type(results[0], fedactive.Result)
assert_type(fedactive.load("runs/NAME"), fedactive.Result)

fedactive.load(3)  # type: ignore[arg-type]
fedactive.Experiment(rounds="two")  # type: ignore[arg-type]

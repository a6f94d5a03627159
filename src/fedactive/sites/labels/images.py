"""Which pictures the numbers in the store belong to, so that a backup of it says so, too; and which are gone.

A picture that is gone keeps its answers, but nobody is asked about it, and its label does not count until
it is back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fedactive.sites.labels.database import Database

# Of a table with a column `sample`: whether its picture is gone.
IS_GONE = "EXISTS (SELECT 1 FROM images i WHERE i.sample = {}.sample AND i.gone)"


class Images:
    def __init__(self, database: Database) -> None:
        self.database = database

    def digests(self) -> dict[int, str]:
        """Return the hash of what each image shows, by number."""
        return dict(map(tuple, self.database.rows("SELECT sample, digest FROM images")))

    def gone(self) -> set[int]:
        return {sample for (sample,) in self.database.rows("SELECT sample FROM images WHERE gone")}

    def update(self, digests: Sequence[str], gone: Collection[int]) -> None:
        """Write down all images, by number, and which of them are gone now."""
        wanted = {(sample, digest, int(sample in gone)) for sample, digest in enumerate(digests)}
        known = set(map(tuple, self.database.rows("SELECT sample, digest, gone FROM images")))
        if changes := sorted(wanted - known):
            with self.database.writing():
                self.database.connection.executemany(
                    "INSERT INTO images VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET gone = excluded.gone",
                    changes,
                )

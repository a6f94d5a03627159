"""Kinds of damage to files: what a bad disk, a hasty editor or somebody malicious makes of them."""

import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedactive.record.results_file import FILE

TABLES = ("metrics", "selections", "timings", "clients")
TEXTS = ("experiment.toml", "environment.json", "done.json")


def truncate(content, rng):
    return content[: rng.randrange(len(content))]


def flip(content, rng):
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def garbage(content, rng):
    return rng.choice(
        (
            b"",
            b"\xff\xfe\x00",
            b"[]",
            b"null",
            b"1e999",
            b'"\\ud800"',
            b"PAR1",
            b"[" * 10**5,
            b"a = " + b"[" * 10**5,
        )
    )


WORDS = (
    b"1",
    b"seed",
    b"0.1",
    b"null",
    b"true",
    b'"',
    b"=",
    b"[",
    b"{",
    b"}",
    b"nan",
    b"-",
    b"9" * 30,
    b"\xc3\x28",
)


def other_word(content, rng):
    """Text with a word of it exchanged for another, as by somebody who edits it."""
    words = sorted(set(content.replace(b"\n", b" ").split()))
    return content.replace(rng.choice(words), rng.choice(WORDS), 1)


def other_value(content, rng):
    """JSON, or TOML, with another value somewhere."""
    value = rng.choice(
        (
            None,
            -1,
            0,
            10**30,
            1e308,
            math.nan,
            math.inf,
            True,
            "",
            "x" * 10**5,
            "a\u0000b",
            "<b>",
            [],
            {},
            [[1]],
        )
    )
    if content[:1] == b"{":
        found = json.loads(content)
        place = found
        while isinstance(place, dict | list) and place:
            key = rng.choice(sorted(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], dict | list) or rng.random() < 0.3:
                place[key] = value
                break
            place = place[key]
        return json.dumps(found).encode()
    lines = content.decode().splitlines()
    number = rng.choice([i for i, line in enumerate(lines) if " = " in line])
    written = json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")
    lines[number] = f"{lines[number].split(' = ')[0]} = {written}"
    return ("\n".join(lines) + "\n").encode()


NUMBERS = (math.nan, -1, 0, 0.5, 30.0, 1e300, -1e300, math.inf, 2**40, 2**62)


def other_table(content, rng):
    """A Parquet table with columns, rows or values that do not belong there."""
    table = pq.read_table(io.BytesIO(content))
    names, rows = table.column_names, len(table)
    name = rng.choice(names)
    values, kind = table[name].to_pylist(), table[name].type
    row = rng.randrange(rows)

    def put(column):
        return table.set_column(names.index(name), name, column)

    def numbers():
        for _ in range(rng.choice((1, 1, rows))):
            values[rng.randrange(rows)] = rng.choice(NUMBERS)
        return put(pa.array([None if v is None else float(v) for v in values]))

    def lists():
        own = values[row] or []
        values[row] = rng.choice(([], None, own[:-1], own * 2))
        return put(pa.array(values, kind))

    def types():
        others = (["x"], [{"a": 1}], [b"\xff"], [[1.0]], [[]], [True], [None])
        return put(pa.array(rng.choice(others) * rows))

    def nulls():
        return put(pa.array([*values[:row], None, *values[row + 1 :]], kind))

    def last_round():
        al_round = table["al_round"].to_numpy() if "al_round" in names else np.arange(rows)
        return table.filter(pa.array(al_round < al_round.max()))

    ways = [
        types,
        nulls,
        last_round,
        lambda: table.drop_columns([name]),
        lambda: table.rename_columns(["other" if n == name else n for n in names]),
        lambda: table.slice(0, row),
        lambda: table.slice(row),
        lambda: pa.concat_tables([table, table.slice(row, 3)]),
        lambda: table.take(rng.sample(range(rows), rows)),
    ]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        ways += [numbers] * 4
    if pa.types.is_list(kind):
        ways += [lists] * 4
    buffer = io.BytesIO()
    pq.write_table(rng.choice(ways)(), buffer)
    return buffer.getvalue()


def damage_file(file, rng, ways):
    file.write_bytes(rng.choice(ways)(file.read_bytes(), rng))


def damage_folder(folder, rng):
    """One thing that is wrong with a run folder."""
    text, table = folder / rng.choice(TEXTS), folder / f"{rng.choice(TABLES)}.parquet"
    how = rng.choice(("text", "text", "table", "table", "table", "delete", "exchange", "folder"))
    if how == "text":
        damage_file(text, rng, (truncate, flip, garbage, other_word, other_value))
    elif how == "table":
        damage_file(table, rng, (truncate, flip, garbage, *[other_table] * 4))
    elif how == "delete":
        for file in rng.sample(sorted(folder.iterdir()), rng.choice((1, 1, 3))):
            file.unlink()
    elif how == "exchange":
        table.write_bytes((folder / f"{rng.choice(TABLES)}.parquet").read_bytes())
    else:
        text.unlink()
        text.mkdir()


def damage_results(folder, rng):
    damage_file(folder / FILE, rng, (truncate, flip, garbage, *[other_table] * 4))

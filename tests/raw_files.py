"""A folder of files as a new user would bring them, and the graph that they mean."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person {
    code: String @key
    name: String
    kind: String?
    active: Bool?
    born: Date?
    seen: DateTime?
    pay: F64?
    budget: Decimal(10, 2)?
    origin: String @default("raw")
}
node City { key: String @key  size: I64? }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""

MAPPING = r"""
# What holds for every file.
null: ["NULL", "\\N", "NA"]
trim: true
skip: ["notes.csv"]
files:
  people-*.csv:
    type: Person
    delimiter: ";"
    encoding: latin-1
    decimal: ","
    ignore_extra_columns: true
    columns:
      code: id
      kind: type
      name: full name
  cities.jsonl:
    type: City
    columns: {key: id}
  knows.tsv:
    type: Knows
    header: [who, whom, since]
    columns: {from: who, to: whom}
  lives.parquet:
    type: LivesIn
"""

GRAPH = {
    "Person": [
        ("7", "Müller", "boss", True, "2024-01-31", "2024-01-31T08:00:00.000Z", 1234.5, "0.10", "raw"),
        ("8", "A; B", None, False, "2024-02-03", "2024-02-03T00:00:00.000Z", -2.0, None, "raw"),
        ("9", "Zoë", "x", None, None, None, None, None, "raw"),
    ],
    "City": [("1", 7), ("2", None)],
    "Knows": [("7", "8", "2020-02-01"), ("8", "9", None)],
    "LivesIn": [("7", "1"), ("9", "2")],
}


def write_raw(folder: Path, *, mapping: str | None = MAPPING) -> Path:
    """Write the folder; without a mapping there is none in it."""
    folder.mkdir()
    (folder / "people-1.csv").write_bytes(
        " id ;type; full name;active;born;seen;pay;budget;row number\n"
        "7; boss ;Müller;yes;31.01.2024;2024-01-31 10:00+02:00;1234,5; 0,10;1\n"
        '8;NULL; "A; B" ;0;2024/2/3;2024/02/03;-2;;2\n'.encode("latin-1")
    )
    (folder / "people-2.csv").write_bytes("id;full name;type;active\n9;Zoë;x;NA\n".encode("latin-1"))
    (folder / "cities.jsonl").write_text('{"id": 1, "size": 7}\n{"id": "2", "size": null}\n')
    (folder / "knows.tsv").write_text("7\t8\t2020-02-01\n8\t9\t\\N\n")
    pq.write_table(pa.table({"from": pa.array([7, 9]), "to": pa.array([1, 2], pa.int8())}), folder / "lives.parquet")
    (folder / "notes.csv").write_text("no,rows\nat,all\n")
    if mapping is not None:
        (folder / "mapping.yaml").write_text(mapping)
    return folder


def spoil(folder: Path) -> None:
    """Make mistakes in every file but one, the same ones in many rows."""
    rows = "".join(f"p{number};n;x;{'maybe' if number % 2 else 'no'};{number}.13.2020\n" for number in range(40))
    (folder / "people-2.csv").write_bytes(f"id;full name;type;active;born\n{rows}".encode("latin-1"))
    lines = "".join(f'{{"id": {number}, "size": "{number}", "sze": 1}}\n' for number in range(30))
    (folder / "cities.jsonl").write_text(lines)
    (folder / "knows.tsv").write_text("7\t8\n8\t\t\\N\n")
    pq.write_table(pa.table({"from": pa.array([1.5]), "too": pa.array([1])}), folder / "lives.parquet")

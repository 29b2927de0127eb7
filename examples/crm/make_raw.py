"""Makes the raw files of the example, as three systems would export them: CSV, Parquet and a log of changes.

They are small and always the same. What is wrong in them is wrong on purpose: customers without an address, one who is
500 years old, a customer twice, changes that arrive out of order.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CITIES = ("Lisbon", "Oslo", "Quito", "Seoul")
FIRST = ("Ada", "Ben", "Chloé", "Dmitri", "Eun", "Fatima", "Göran", "Hana", "Ivo", "Jun")
LAST = ("Alves", "Berg", "Costa", "Duval", "Ek", "Faria", "Grün", "Holm", "Ito", "Jansen")
TEAMS = 8
CUSTOMERS = 400
REFERRALS = 900
START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def make_raw(folder: Path) -> None:
    """Write the first delivery of every system."""
    folder.mkdir(parents=True, exist_ok=True)
    _customers(folder / "customers-1.csv", range(CUSTOMERS))
    _teams(folder / "teams.parquet")
    _referrals(folder / "referrals-1.jsonl", count=REFERRALS)


def make_more(folder: Path) -> None:
    """Write the second delivery: some customers changed, some are new, some referrals were taken back."""
    _customers(folder / "customers-2.csv", range(CUSTOMERS - 20, CUSTOMERS + 10), moved=True)
    _referrals(folder / "referrals-2.jsonl", count=60, deletes=20)


def email(number: int) -> str:
    """Return the address that stands for a customer everywhere."""
    return f"{FIRST[number % 10]}.{LAST[number // 10 % 10]}.{number}@example.org"


def _customers(path: Path, numbers: range, *, moved: bool = False) -> None:
    lines = ["customer id;full name;e-mail;age;active;team;hired on"]
    for number in numbers:
        name = f"{FIRST[number % 10]} {LAST[number // 10 % 10]}"
        address = "NULL" if number % 97 == 5 else email(number)
        age = "500" if number == 42 and not moved else str(20 + number % 45)
        team = f"T{(number + moved) % TEAMS}"
        hired = date(2015, 1, 1) + timedelta(days=number * 37 % 4000)
        lines.append(f"{1000 + number};{name};{address};{age};{number % 7 != 0:d};{team};{hired:%Y-%m-%d}")
    # The system that exports them writes one customer twice.
    lines.append(lines[3])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _teams(path: Path) -> None:
    codes = [f"T{number}" for number in range(TEAMS)]
    rows = {
        "team_code": codes,
        "title": [f"Team {code[1:]}" for code in codes],
        "location": [CITIES[number % len(CITIES)] for number in range(TEAMS)],
    }
    pq.write_table(pa.table(rows), path)


def _referrals(path: Path, *, count: int, deletes: int = 0) -> None:
    lines = []
    # Multiplying by a number that shares no factor with the count visits every place once, out of order.
    for number in (step * 7_919 % count for step in range(count)):
        giver = number * 131 % CUSTOMERS
        # A few are referred to again and again, which is what influence is about.
        taker = giver // 40 if number % 5 == 0 and giver >= 10 else (giver + 1 + number * number % 23) % CUSTOMERS
        change = {
            "op": "D" if number < deletes else "U",
            "id": f"r{number:05}",
            "giver": email(giver),
            "taker": email(taker),
            "amount": f"{100 + number * 7_331 % 99_900:.2f}",
            "changed": (START + timedelta(minutes=number, days=70 if deletes else 0)).isoformat(),
        }
        lines.append(json.dumps(change, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_raw(Path(__file__).parent / "raw")

"""What the options of a command say about the files that it reads rows from.

Commands that share a file with such a command read none, so that Arrow is loaded here only where it is used.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.usage import usage_error
from omnigraph.errors import UsageError
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.engine.load import Dialect, Source

Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="TYPE=FILE",
        help="A CSV, Parquet, Arrow or plain JSONL file of one type; may be repeated.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="TYPE.PROPERTY=COLUMN",
        help="Read a property, id, from or to from this column; may be repeated.",
    ),
]
MappingFile = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        metavar="FILE",
        help="A YAML file that describes the files of a folder; mapping.yaml in it by default.",
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="TYPE=NAME,NAME",
        help="The columns of a CSV file without a header line; may be repeated.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHAR", help="The delimiter of CSV files; \\t or tab is a tab."),
]
Quote = Annotated[
    str | None, typer.Option("--quote", metavar="CHAR", help="The quote character of CSV files; none if empty.")
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", metavar="NAME", help="The encoding of CSV files, such as latin-1 or utf-16.")
]
Nulls = Annotated[
    list[str] | None, typer.Option("--null", metavar="TEXT", help="A cell text that means null; may be repeated.")
]
DecimalMark = Annotated[
    str | None, typer.Option("--decimal", metavar="CHAR", help="The decimal mark of CSV files, . or a comma.")
]
Trim = Annotated[bool, typer.Option("--trim", help="Trim blanks around cells and column names.")]
IgnoreExtra = Annotated[
    bool, typer.Option("--ignore-extra-columns", help="Ignore columns that match no property instead of failing.")
]
_TABS = frozenset({"\\t", "tab"})


@record
class TableOptions:
    """What is said of files that hold rows of one type."""

    tables: Tables = None
    columns: Columns = None
    mapping: MappingFile = None
    headers: Headers = None
    delimiter: Delimiter = None
    quote: Quote = None
    encoding: Encoding = None
    nulls: Nulls = None
    decimal: DecimalMark = None
    trim: Trim = False
    ignore_extra_columns: IgnoreExtra = False

    def dialect(self) -> Dialect:
        """Return how all files are written, as far as the options say so.

        Raises:
            UsageError: nothing can be written so.
        """
        from omnigraph.engine.load import Dialect  # noqa: PLC0415 - see above

        given: dict[str, Any] = {
            "delimiter": "\t" if self.delimiter in _TABS else self.delimiter,
            "quote": self.quote,
            "encoding": self.encoding,
            "null": self.nulls,
            "decimal": self.decimal,
        }
        return Dialect(
            trim=self.trim,
            ignore_extra_columns=self.ignore_extra_columns,
            **{name: value for name, value in given.items() if value is not None},
        )


def read_sources(data: Sequence[str], options: TableOptions, *, expected: str) -> list[Source]:
    """Return what to read, from the options that name it; ``expected`` is what to give if there is nothing.

    Raises:
        UsageError: nothing is named, or an option is not of its form.
    """
    from omnigraph.engine.load import Source  # noqa: PLC0415 - see above

    if not data and not options.tables and options.mapping is None:
        raise usage_error("no input", expected=expected)
    mapped = _read_columns(options.columns or ())
    headers = _read_headers(options.headers or ())
    dialect = options.dialect()
    folders = data or ([str(PurePath(options.mapping).parent)] if options.mapping is not None else ())
    sources = [Source(path=path, dialect=dialect, mapping=options.mapping) for path in folders]
    for text in options.tables or ():
        owner, equals, path = text.partition("=")
        if not (equals and owner and path):
            raise usage_error(f"invalid --table '{text}'", value=text, expected="TYPE=FILE")
        sources.append(Source(path=path, type_name=owner, dialect=dialect))
    described = []
    for source in sources:
        owner = source.type_name or source.stem
        one = replace(source, columns=mapped.get(owner, {}))
        if owner in headers:
            one = replace(one, dialect=replace(dialect, header=headers[owner]))
        described.append(one)
    _refuse_unused("--column", {owner: next(iter(some)) for owner, some in mapped.items()}, described)
    _refuse_unused("--header", {owner: some[0] for owner, some in headers.items()}, described)
    return described


def _read_columns(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    mapped: dict[str, dict[str, str]] = {}
    for text in texts:
        target, equals, name = text.partition("=")
        owner, dot, prop = target.rpartition(".")
        if not (equals and dot and owner and prop and name):
            raise usage_error(f"invalid --column '{text}'", value=text, expected="TYPE.PROPERTY=COLUMN")
        mapped.setdefault(owner, {})[prop] = name
    return mapped


def _read_headers(texts: Sequence[str]) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for text in texts:
        owner, equals, names = text.partition("=")
        if not (equals and owner and names):
            raise usage_error(f"invalid --header '{text}'", value=text, expected="TYPE=NAME,NAME")
        headers[owner] = names.split(",")
    return headers


def _refuse_unused(option: str, said: Mapping[str, str], sources: Sequence[Source]) -> None:
    """Refuse what is said of a type that no file with columns is given for."""
    tables = [source for source in sources if _may_be_table(source)]
    known = [source.type_name or source.stem for source in tables]
    for owner, first in said.items():
        if owner in known:
            continue
        value = f"{owner}.{first}" if option == "--column" else owner
        if not tables:
            message = "only files of one type have columns"
            hint = f"leave {option} out, or name the type with --table: the load format names the properties"
        else:
            near = difflib.get_close_matches(owner, known, n=1)
            message = f"no file of type '{owner}' was passed"
            hint = f"did you mean '{near[0]}'?" if near else f"pass it with --table {owner}=FILE"
        raise usage_error(f"{option} {value}: {message}", value=value, expected="a column of a file", hint=hint)


def _may_be_table(source: Source) -> bool:
    try:
        return source.is_table
    except UsageError:
        # What a folder or a glob holds is not known yet.
        return True

"""``Result``: the rows of a read, and everything they can be turned into."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

import pyarrow as pa

from omnigraph.engine.query.options import MAX_ENTITIES
from omnigraph.engine.results import encodings
from omnigraph.engine.results.encodings import CellLayout, Content, TextSink, host_rows
from omnigraph.engine.results.info import ReadInfo, SupportsExplanation, WrittenProperty
from omnigraph.engine.results.table import MAX_COLUMN_WIDTH, MAX_ROWS, html_table, write_table
from omnigraph.errors import BadValue, OmnigraphError, QueryCancelledError, ResultSpentError
from omnigraph.runtime import Cost, Counters
from omnigraph.values import check_choice, check_flag, check_whole
from omnigraph.values.counts import counted


class Batches:
    """Batches that can be iterated any number of times, by several threads, while the source is still giving.

    A source that fails has failed for every reader: what came before must not pass for the whole.
    """

    def __init__(self, source: Iterable[pa.RecordBatch]) -> None:
        self._held: list[pa.RecordBatch] = list(source) if isinstance(source, (list, tuple)) else []
        self._source = None if isinstance(source, (list, tuple)) else iter(source)
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._is_spent = False

    @property
    def is_complete(self) -> bool:
        """Whether all batches are here, so that nothing has to be waited for."""
        return self._source is None and self._failure is None and not self._is_spent

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._held) if self.is_complete else self._drawn()

    def _drawn(self) -> Iterator[pa.RecordBatch]:
        position = 0
        while (batch := self._at(position)) is not None:
            yield batch
            position += 1

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Hand every batch over once without keeping it, unless all of them are here already.

        Raises:
            ResultSpentError: that was done before.
        """
        with self._lock:
            self._check_usable()
            if self._source is None:
                return iter(self._held)
            held, self._held = self._held, []
            source, self._source = self._source, None
            self._is_spent = True
        return _chain(held, source)

    def _at(self, position: int) -> pa.RecordBatch | None:
        with self._lock:
            self._check_usable()
            if position == len(self._held) and self._source is not None:
                self._pull(self._source)
            return self._held[position] if position < len(self._held) else None

    def _pull(self, source: Iterator[pa.RecordBatch]) -> None:
        try:
            self._held.append(next(source))
        except StopIteration:
            self._source = None
        except BaseException as problem:
            self._failure, self._source, self._held = problem, None, []
            raise

    def _check_usable(self) -> None:
        if self._is_spent:
            details = BadValue(what="result", value="streamed", expected="rows that are still available")
            raise ResultSpentError("the rows of this result were already streamed", details=details)
        if isinstance(self._failure, OmnigraphError):
            raise self._failure
        if self._failure is not None:
            details = BadValue(what="result", value=type(self._failure).__name__, expected="a completed read")
            raise QueryCancelledError("reading the rows was interrupted", details=details) from self._failure


def _chain(held: list[pa.RecordBatch], source: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held.reverse()
    while held:
        yield held.pop()
    yield from source


# As good as 8, like everything below it.
_NARROWEST = -(1 << 31)


class Result:
    """The rows of a read, kept as Arrow. Threads may share it.

    Rows may still be on their way: they are pulled when they are first needed and kept, so everything here can be
    asked again and again. Only :meth:`stream` gives them away. Column names may repeat; Arrow keeps all of such
    columns, and row objects take the last of them.

    Args:
        schema: the columns, also when there is no row.
        batches: the rows.
        info: which query was read from where.
        counters: what collects the cost of the read; it may still be counting while batches come.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: pa.Table | Iterable[pa.RecordBatch],
        info: ReadInfo,
        counters: Counters | None = None,
    ) -> None:
        self._schema = schema
        self._batches = Batches(batches.to_batches() if isinstance(batches, pa.Table) else batches)
        self._info = info
        self._counters = counters or Counters()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of ``return``."""
        return tuple(self._schema.names)

    @property
    def info(self) -> ReadInfo:
        """Which query was read from where, and how long it took."""
        return self._info

    @property
    def query_name(self) -> str:
        """The query that was run."""
        return self._info.query_name

    @property
    def commit_id(self) -> str | None:
        """The head of exactly the snapshot that the rows come from."""
        return self._info.commit_id

    @property
    def explanation(self) -> SupportsExplanation | None:
        """The plan that was run, if the read kept it."""
        return self._info.explanation

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is legal in the call and probably not meant, such as a parameter that no value of its enum equals."""
        return self._info.warnings

    @property
    def written(self) -> WrittenProperty | None:
        """The property that an algorithm has written, with the commit; None if it was to write none."""
        return self._info.written

    @property
    def cost(self) -> Cost:
        """What the read asked of storage until this moment."""
        return self._counters.cost()

    @property
    def num_rows(self) -> int:
        """How many rows there are; pulls all of them."""
        return sum(batch.num_rows for batch in self._batches)

    def __len__(self) -> int:
        return self.num_rows

    def __reduce__(self) -> tuple[Callable[..., Result], tuple[Any, ...]]:
        # Whoever gets it gets all rows: what they come from stays in this process.
        return _restored, (self._schema, list(self._batches), self._info, self.cost)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._batches:
            yield from host_rows(self.columns, batch)

    def __repr__(self) -> str:
        count = counted(self.num_rows, "row") if self._batches.is_complete else "rows not read yet"
        columns = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
        return f"<Result of {self.query_name}: {count}, columns ({columns})>"

    def __str__(self) -> str:
        """The table of the first rows, for ``print``."""
        text = io.StringIO()
        write_table(self._head(MAX_ROWS), text, max_column_width=MAX_COLUMN_WIDTH, layout="truncate")
        rest = self.num_rows - MAX_ROWS
        shown = text.getvalue() + f"… and {rest} more rows" if rest > 0 else text.getvalue().removesuffix("\n")
        written = [] if self.written is None else [str(self.written)]
        return "\n".join([shown, *written, *(f"warning: {warning}" for warning in self.warnings)])

    def _repr_html_(self) -> str:
        return html_table(self._head(MAX_ROWS), MAX_ROWS)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows to any library that speaks the Arrow C stream protocol."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch as they come; they are kept, so this can be done again."""
        return iter(self._batches)

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch without keeping them, for more rows than memory holds.

        Afterwards the rows cannot be asked for again, unless all of them had been pulled before.

        Raises:
            ResultSpentError: they were streamed before.
        """
        return self._batches.stream()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of Python values: a Date is a ``date``, a DateTime an aware ``datetime``.

        One outside the years 1 to 9999, which Python's calendar lacks, is its text.
        """
        columns = self.columns
        return [row for batch in self._batches for row in host_rows(columns, batch)]

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table: Date is Date32, DateTime Date64, a vector a list of fixed size."""
        return pa.Table.from_batches(list(self._batches), schema=self._schema)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas frame, with UTC timestamps for DateTime.

        Raises:
            LibraryMissingError: pandas is not installed.
        """
        from omnigraph.engine.results import frames  # noqa: PLC0415 - loaded for the views that need it

        return frames.to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """Return the rows as a polars frame, with UTC timestamps for DateTime and a number on repeated names.

        Raises:
            LibraryMissingError: polars is not installed.
        """
        from omnigraph.engine.results import frames  # noqa: PLC0415 - loaded for the views that need it

        return frames.to_polars(self.to_arrow())

    def to_networkx(self, *, limit: int = MAX_ENTITIES) -> Any:
        """Return the nodes of the rows and the edges that the query found between them, each once.

        It is a ``networkx.MultiDiGraph``. A node ``(type, id)`` is there for every variable that ``return`` names
        itself, such as ``$p``; its attributes are the properties that are returned with it, such as ``$p.name`` or
        ``$p.*``. An edge that was looked for in either direction points as it was written.

        Args:
            limit: how many nodes and edges there may be.

        Raises:
            ResultWithoutNodesError: no column is a node.
            ViewTooLargeError: there are more than ``limit`` of them.
            LibraryMissingError: networkx is not installed.
        """
        from omnigraph.engine.results.network import network_of_rows  # noqa: PLC0415 - loaded for the views that need it

        return network_of_rows(self._info.pattern, self._batches, limit).to_networkx()

    def to_svg(self) -> str:
        """Return a drawing of the nodes that the rows hold and the edges between them, as :meth:`to_networkx` does.

        Raises:
            ResultWithoutNodesError: no column is a node.
            ViewTooLargeError: there are too many to be told apart.
        """
        from omnigraph.engine.results.drawing import draw_svg, picture_of_network  # noqa: PLC0415 - loaded for the views that need it
        from omnigraph.engine.results.network import network_of_rows  # noqa: PLC0415 - see above

        network = network_of_rows(self._info.pattern, self._batches, MAX_ENTITIES)
        return draw_svg(picture_of_network(network, self._info.headline(self.num_rows)))

    def to_json(self, *, javascript: bool = False) -> str:
        """Return one indented JSON document, as :meth:`write_json` writes it."""
        return _text(lambda sink: self.write_json(sink, javascript=javascript))

    def to_jsonl(self, *, javascript: bool = False) -> str:
        """Return lines of JSON, as :meth:`write_jsonl` writes them."""
        return _text(lambda sink: self.write_jsonl(sink, javascript=javascript))

    def to_csv(self) -> str:
        """Return CSV, as :meth:`write_csv` writes it."""
        return _text(self.write_csv)

    def to_kv(self) -> str:
        """Return a line per value, as :meth:`write_kv` writes them."""
        return _text(self.write_kv)

    def to_table(self, *, max_column_width: int = MAX_COLUMN_WIDTH, layout: CellLayout = "truncate") -> str:
        """Return a table, as :meth:`write_table` writes it."""
        return _text(lambda sink: self.write_table(sink, max_column_width=max_column_width, layout=layout))

    def write_json(self, sink: TextSink, *, javascript: bool = False, compact: bool = False) -> None:
        """Write one JSON document: query, target, row count, columns, rows, commit.

        Args:
            sink: an open text file, or anything else with ``write``.
            javascript: write integers beyond ±9007199254740991 as text, since a JavaScript number cannot hold them.
            compact: write it on one line, without spaces.
        """
        check_flag("javascript", javascript)
        check_flag("compact", compact)
        encodings.write_json(self._content(), sink, is_javascript=javascript, is_compact=compact)

    def stream_json_rows(self) -> Iterator[str]:
        """Yield each row as a JSON object on one line, without keeping rows; see :meth:`stream`."""
        content = Content(info=self._info, columns=self.columns, batches=self.stream(), row_count=0)
        return encodings.json_rows(content, is_javascript=False, margin=None)

    def write_jsonl(self, sink: TextSink, *, javascript: bool = False) -> None:
        """Write a line of metadata, then one JSON object per row; takes what :meth:`write_json` takes."""
        check_flag("javascript", javascript)
        encodings.write_jsonl(self._content(), sink, is_javascript=javascript)

    def write_csv(self, sink: TextSink) -> None:
        """Write a header and one line per row; NULL is the text ``null``."""
        encodings.write_csv(self._content(), sink)

    def write_kv(self, sink: TextSink) -> None:
        """Write a headline, then ``column: value`` lines row by row."""
        encodings.write_kv(self._content(), sink)

    def write_table(
        self,
        sink: TextSink,
        *,
        max_column_width: int = MAX_COLUMN_WIDTH,
        layout: CellLayout = "truncate",
        max_width: int | None = None,
    ) -> None:
        """Write a headline and a table for people.

        Args:
            sink: an open text file, or anything else with ``write``.
            max_column_width: the widest a column may be; less than 8 counts as 8.
            layout: whether longer cells are cut or broken into lines.
            max_width: the widest a line may be; columns shrink for it, to 4 at the least.
        """
        check_whole("max_column_width", max_column_width, least=_NARROWEST)
        check_choice("layout", layout, get_args(CellLayout))
        check_whole("max_width", max_width, optional=True)
        write_table(self._content(), sink, max_column_width=max_column_width, layout=layout, max_width=max_width)

    def _content(self) -> Content:
        # Counting pulls every row first: a read that fails half way must not leave half an encoding behind.
        return Content(info=self._info, columns=self.columns, batches=self._batches, row_count=self.num_rows)

    def _head(self, most: int) -> Content:
        first = self.to_arrow().slice(0, most).to_batches()
        return Content(info=self._info, columns=self.columns, batches=first, row_count=self.num_rows)


def _text(write: Callable[[TextSink], None]) -> str:
    sink = io.StringIO()
    write(sink)
    return sink.getvalue()


def _restored(schema: pa.Schema, batches: list[pa.RecordBatch], info: ReadInfo, cost: Cost) -> Result:
    counters = Counters()
    counters.add(cost)
    return Result(schema, batches, info, counters)

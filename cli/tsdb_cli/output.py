"""Results as bytes: table, CSV, JSON, newline-delimited JSON, Parquet and Arrow, to standard output or a file.

All of them stream. A file appears under its name only when it is complete. In CSV an empty cell is NULL and ``""`` is the empty
string; a result of the text formats never imports pyarrow where it comes from the native operators.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import click

from tsdb_cli import arrow_file, table, terminal
from tsdb_cli.value import as_json, as_text

if TYPE_CHECKING:
    from tsdb.result import Result

FORMATS = ("table", "csv", "json", "ndjson", "parquet", "arrow")
#: Formats of rows without an end.
STREAM_FORMATS = ("ndjson", "csv", "json", "table")
_BY_SUFFIX = {
    ".csv": "csv", ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".arrows": "arrow", ".ipc": "arrow",
}  # fmt: skip
_CHUNK_LINES = 2_000


def choose_format(wanted: str | None, path: Path | None) -> str:
    """The format asked for; else what the file's name says; else a table."""
    if wanted:
        return wanted
    return "table" if path is None else _BY_SUFFIX.get(path.suffix.lower(), "csv")


def write_result(result: Result, form: str, path: Path | None) -> int:
    """Write a result and return its number of rows."""
    if form in ("parquet", "arrow"):
        if path is None and terminal.is_terminal(sys.stdout):
            raise click.UsageError(f"{form} is not for a terminal: name a file with -o, or redirect the output")
        with _binary(path) as stream:
            return (_write_parquet if form == "parquet" else _write_arrow)(result, stream)
    with _text(path) as stream:
        if form == "table" and (text := result.text) is not None:
            return table.write_lines(text.rstrip().split("\n"), stream)
        if form == "table":
            rows_max = table.stdout_rows_max() if path is None else None
            count = table.write_table(result.columns, result.types, result, stream, rows_max)
            if rows_max is not None and count > rows_max:
                stream.flush()
                terminal.note(f"… {count - rows_max:,} more rows; tsdb query -o FILE, or a pipe, gets all of them")
            return count
        return _TEXT_WRITERS[form](result.columns, result, stream)


def write_results(results: Sequence[tuple[str, Result]], form: str) -> None:
    """Write several results by name to standard output: one below the other, in JSON one object, or lines of one query each."""
    if form in ("parquet", "arrow"):
        raise click.UsageError(f"{form} is a file for each query: name a folder with -o")
    with _text(None) as stream:
        for number, (name, result) in enumerate(results):
            if form == "json":
                stream.write(("{\n" if number == 0 else ",\n") + json.dumps(name, ensure_ascii=False) + ": ")
                lines = io.StringIO()
                _write_json(result.columns, result, lines)
                stream.write(lines.getvalue().rstrip("\n"))
            elif form == "ndjson":
                rows = ((name, *row) for row in result)
                _write_ndjson(["query", *result.columns], rows, stream)
            else:
                stream.write(("\n" if number else "") + (f"-- {name}\n" if form == "table" else ""))
                stream.flush()
                write_result(result, form, None)
        if form == "json":
            stream.write("\n}\n" if results else "{}\n")


@contextmanager
def stream_writer(names: Sequence[str], types: Sequence[str], form: str) -> Iterator[Callable[[Sequence[Sequence[Any]]], None]]:
    """Writes rows to standard output as they come, each part at once; a table for each part, and one array in JSON."""
    with _text(None) as stream:
        begun = False

        def write(rows: Sequence[Sequence[Any]]) -> None:
            nonlocal begun
            if form == "table":
                table.write_table(names, types, rows, stream)
            elif form == "csv":
                _write_csv_rows(rows, stream)
            elif form == "json":
                lines = ["  " + _json_object(names, row) for row in rows]
                stream.write((",\n" if begun and lines else "") + ",\n".join(lines))
            else:
                _write_ndjson(names, rows, stream)
            begun = begun or len(rows) > 0
            stream.flush()

        stream.write({"csv": _csv_head(names), "json": "[\n"}.get(form, ""))
        stream.flush()
        try:
            yield write
        finally:
            if form == "json":
                stream.write("\n]\n" if begun else "]\n")


def write_text(text: str, path: Path | None) -> None:
    """Write a text to a file or to standard output."""
    with _text(path) as stream:
        stream.write(text)


def _write_csv(names: Sequence[str], rows: Iterable[Sequence[Any]], stream: TextIO) -> int:
    stream.write(_csv_head(names))
    return _write_csv_rows(rows, stream)


def _csv_head(names: Sequence[str]) -> str:
    return ",".join(_csv_cell(name) for name in names) + "\n"


def _write_csv_rows(rows: Iterable[Sequence[Any]], stream: TextIO) -> int:
    return _write_lines((",".join(["" if value is None else _csv_cell(as_text(value)) for value in row]) for row in rows), stream)


def _csv_cell(text: str) -> str:
    plain = text and text.isprintable() and '"' not in text and "," not in text and text[0] != " " and text[-1] != " "
    return text if plain else '"' + text.replace('"', '""') + '"'


def _write_ndjson(names: Sequence[str], rows: Iterable[Sequence[Any]], stream: TextIO) -> int:
    return _write_lines((_json_object(names, row) for row in rows), stream)


def _write_json(names: Sequence[str], rows: Iterable[Sequence[Any]], stream: TextIO) -> int:
    def lines() -> Iterator[str]:
        waiting: str | None = None
        for row in rows:
            if waiting is not None:
                yield waiting + ","
            waiting = "  " + _json_object(names, row)
        if waiting is not None:
            yield waiting

    stream.write("[\n")
    count = _write_lines(lines(), stream)
    stream.write("]\n")
    return count


_TEXT_WRITERS: dict[str, Callable[[Sequence[str], Iterable[Sequence[Any]], TextIO], int]] = {
    "csv": _write_csv,
    "json": _write_json,
    "ndjson": _write_ndjson,
}


def _json_object(names: Sequence[str], row: Sequence[Any]) -> str:
    return json.dumps({name: as_json(value) for name, value in zip(names, row, strict=True)}, ensure_ascii=False, allow_nan=False)


def _write_lines(lines: Iterable[str], stream: TextIO) -> int:
    count = 0
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == _CHUNK_LINES:
            stream.write("\n".join(chunk) + "\n")
            count += len(chunk)
            chunk.clear()
    if chunk:
        stream.write("\n".join(chunk) + "\n")
    return count + len(chunk)


def _reader(result: Result) -> Any:
    import pyarrow as pa

    return pa.RecordBatchReader.from_stream(result)


def _write_parquet(result: Result, stream: BinaryIO) -> int:
    reader = _reader(result)
    return arrow_file.write_parquet(reader, stream, reader.schema)


def _write_arrow(result: Result, stream: BinaryIO) -> int:
    import pyarrow as pa

    reader = _reader(result)
    count = 0
    with pa.ipc.new_stream(stream, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


@contextmanager
def _binary(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _stream(path, lambda partial: partial.open("wb")) as stream:
        yield cast(BinaryIO, stream)


@contextmanager
def _text(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
        yield sys.stdout
        sys.stdout.flush()
        return
    with _stream(path, lambda partial: partial.open("w", encoding="utf-8", errors="surrogateescape", newline="")) as stream:
        yield cast(TextIO, stream)


@contextmanager
def _stream(path: Path, opener: Callable[[Path], IO[Any]]) -> Iterator[IO[Any]]:
    """A stream into a file; a device or a pipe is written in place."""
    if path.exists() and not path.is_file():
        with opener(path) as stream:
            yield stream
        return
    with replacing(path) as partial, opener(partial) as stream:
        yield stream


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place for a file that takes the place of ``path`` when everything is written, and is removed when something fails."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)

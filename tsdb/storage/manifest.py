"""The manifest: one JSON document per database version that names everything a database consists of.

``manifest/<version>.json`` is a line of JSON and a line with its checksum, written whole and never changed; ``CURRENT`` holds the
name of the newest. A commit is the renaming of CURRENT: before it the new version does not exist, after it the old one is history.
Names inside are relative to the database directory. A damaged manifest that CURRENT names is an error, never silently replaced by
an older one, since that would undo commits; only where CURRENT itself is missing or unreadable, the highest manifest is taken:
everything it names was durable before it was written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.suggestion import hint
from tsdb_format.disk import DISK, NewFile, Storage
from tsdb_format.errors import Corruption, Error, InvalidInput, NotFound, UnsupportedFormat
from tsdb_format.payload_table import NOT_OWNED, Payload

#: Version of the document's layout; newer ones are refused. 1 knew neither log nor tombstones: all its commits are in files. 2 knew
#: no payload files: all blobs are in pages. 3 knew no shards, and forgot deletes without a trace.
FORMAT = 4
CURRENT_NAME = "CURRENT"
FOLDER = "manifest"
_NAME = re.compile(r"manifest/(\d{10})\.json")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One data file: its name, and what is known of it without opening it. Times are in the time column's unit.

    Deletes with a sequence number up to ``applied`` are carried out in it: what they hit is not there any more. ``payloads`` hold
    blobs of its rows, and may hold others'; ``bytes`` counts the file and its resource only. All rows are of ``shard``, where the
    table has shards and that is known.
    """

    name: str
    rows: int
    devices: int
    bytes: int
    min_time: int
    max_time: int
    min_sequence: int
    max_sequence: int
    applied: int = 0
    payloads: tuple[Payload, ...] = ()
    shard: int | None = None

    @property
    def payload_names(self) -> list[str]:
        """The payload files that are the database's own."""
        folder = self.name.rpartition("/")[0]
        return [f"{folder}/{each.name}" for each in self.payloads if each.bytes != NOT_OWNED]

    def to_json(self) -> list[Any]:
        """The entry as plain JSON values."""
        values = [getattr(self, name) for name in FileEntry.__slots__[:-2]]
        if self.payloads or self.shard is not None:
            values.append([[each.name, each.bytes, each.live_bytes] for each in self.payloads])
        return values if self.shard is None else [*values, self.shard]

    @classmethod
    def from_json(cls, values: list[Any]) -> FileEntry:
        """The inverse of ``to_json``."""
        known = len(cls.__slots__) - 2
        payloads = tuple(Payload(*each) for each in (values[known] if len(values) > known else ()))
        shard = values[known + 1] if len(values) > known + 1 else None
        return replace(cls(*values[:known]), payloads=payloads, shard=shard)


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """How far an outside file was ingested. ``head`` and ``tail`` are checksums of its first and last bytes at that time.

    ``rows`` were read, the ``rejected`` among them; text goes on at byte ``offset`` and ``line`` (of the decompressed text).
    """

    path: str
    bytes: int
    modified_ns: int
    head: str
    tail: str
    rows: int
    rejected: int
    offset: int
    line: int
    finished: bool


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table with its files, in order of ``max_sequence``. Those of a shard that overlap in time have disjoint sequence numbers.

    ``tombstones`` names the file of the deletes that some data file still needs; up to number ``forgotten`` there were others,
    which none needs any more. Of the rows before time ``expired`` some have been dropped for their age. ``checkpoints`` tell how
    far the views that write to it are, by their ids: the commit that says so, and the text.
    """

    table: Table
    files: tuple[FileEntry, ...] = ()
    device_file: str | None = None
    sources: dict[str, SourceEntry] = field(default_factory=dict)
    tombstones: str | None = None
    expired: int | None = None
    forgotten: int = 0
    checkpoints: dict[int, tuple[int, str]] = field(default_factory=dict)

    def with_checkpoints(self, made: Mapping[int, tuple[int, str]], views: Iterable[ViewEntry]) -> TableEntry:
        """The table with later checkpoints, by view; those of views that are no more are left out."""
        if not made:
            return self
        alive = {view.id for view in views}
        both = [*self.checkpoints.items(), *made.items()]
        return replace(self, checkpoints=dict(sorted((view, each) for view, each in both if view in alive)))

    @property
    def names(self) -> list[str]:
        """Every file of the table."""
        single = [name for name in (self.device_file, self.tombstones) if name is not None]
        return [*single, *(file.name for file in self.files), *self.payloads]

    @property
    def payloads(self) -> dict[str, tuple[int, int]]:
        """The payload files of the table's own: bytes, and how many of them are blobs of a row."""
        found: dict[str, tuple[int, int]] = {}
        for file in self.files:
            own = (each for each in file.payloads if each.bytes != NOT_OWNED)
            for name, each in zip(file.payload_names, own, strict=True):
                found[name] = each.bytes, each.live_bytes + found.get(name, (0, 0))[1]
        return found

    def to_json(self) -> dict[str, Any]:
        """The entry as plain JSON values."""
        return {
            "table": self.table.to_json(),
            "device_file": self.device_file,
            "tombstones": self.tombstones,
            "expired": self.expired,
            "forgotten": self.forgotten,
            "files": [file.to_json() for file in self.files],
            "sources": [[getattr(source, name) for name in SourceEntry.__slots__] for source in self.sources.values()],
            **({"checkpoints": [[view, *each] for view, each in self.checkpoints.items()]} if self.checkpoints else {}),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TableEntry:
        """The inverse of ``to_json``."""
        sources = [SourceEntry(*values) for values in document["sources"]]
        files = tuple(FileEntry.from_json(values) for values in document["files"])
        table, by_path = Table.from_json(document["table"]), {source.path: source for source in sources}
        single = document.get("tombstones"), document.get("expired"), document.get("forgotten", 0)
        checkpoints = {view: (commit, text) for view, commit, text in document.get("checkpoints", ())}
        return cls(table, files, document["device_file"], by_path, *single, checkpoints)


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A materialized view: the query ``text`` whose rows go to the table with id ``target``.

    ``own``: that table was made for it, and goes with it. ``problem`` is why it was stopped, None while it is not.
    """

    id: int
    name: str
    target: int
    own: bool
    text: str
    problem: str | None = None

    def statement(self, target: Table) -> str:
        """The statement that makes it; ``target`` is its table."""
        into = "" if self.own else f" INTO {quoted_name(target.name)}"
        return f"CREATE MATERIALIZED VIEW {quoted_name(self.name)}{into} AS {self.text};"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of the database. ``next_*`` are never used twice.

    Files hold every commit up to number ``sequence``; the log has the later ones.
    """

    version: int = 0
    sequence: int = 0
    next_table: int = 1
    next_file: int = 1
    tables: dict[str, TableEntry] = field(default_factory=dict)
    views: dict[str, ViewEntry] = field(default_factory=dict)

    def with_table(self, entry: TableEntry) -> Manifest:
        """The manifest with that table added or replaced."""
        return replace(self, tables={**self.tables, entry.table.name: entry})

    def with_view(self, view: ViewEntry) -> Manifest:
        """The manifest with that view added or replaced."""
        return replace(self, views={**self.views, view.name: view})

    def target_of(self, view: ViewEntry) -> TableEntry | None:
        """The table that a view writes to; None where it was dropped."""
        return next((entry for entry in self.tables.values() if entry.table.id == view.target), None)

    def without_table(self, name: str) -> Manifest:
        """The manifest with that table left out."""
        return replace(self, tables={key: entry for key, entry in self.tables.items() if key != name})

    @property
    def name(self) -> str:
        """The manifest's own file name."""
        return f"{FOLDER}/{self.version:010}.json"

    @property
    def names(self) -> frozenset[str]:
        """Every file below the tables' folders that the version consists of."""
        return frozenset(name for entry in self.tables.values() for name in entry.names)


def save(root: Path, manifest: Manifest, storage: Storage = DISK) -> None:
    """Commit: after this the version is what everybody sees, and survives a crash."""
    write_whole(root / manifest.name, sealed(text_of(manifest)), storage)
    write_whole(root / CURRENT_NAME, sealed(manifest.name), storage)


def text_of(manifest: Manifest) -> str:
    """The document, as it is stored."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": manifest.version,
        "sequence": manifest.sequence,
        "next_table": manifest.next_table,
        "next_file": manifest.next_file,
        "tables": [entry.to_json() for entry in manifest.tables.values()],
    }
    if manifest.views:
        document["views"] = [[getattr(view, name) for name in ViewEntry.__slots__] for view in manifest.views.values()]
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def load(root: Path, storage: Storage = DISK) -> Manifest:
    """The version that CURRENT names. Raises NotFound, Corruption, UnsupportedFormat."""
    for _ in range(64):  # a reader may be overtaken by commits that remove the version it was about to read
        name = current_name(root, storage)
        if name is None:
            return _highest(root, storage)
        try:
            return read(root, name, storage)
        except NotFound:
            if current_name(root, storage) == name:
                raise Corruption("the manifest that CURRENT names is missing", path=str(root / name), offset=0) from None
    raise Corruption("CURRENT keeps naming manifests that do not exist", path=str(root / CURRENT_NAME), offset=0)


def current_name(root: Path, storage: Storage = DISK) -> str | None:
    """What CURRENT says, or None where it is missing or damaged."""
    try:
        body = unsealed(storage.read(str(root / CURRENT_NAME)).tobytes())
    except Error:
        return None
    return body if body is not None and _NAME.fullmatch(body) else None


def read(root: Path, name: str, storage: Storage = DISK) -> Manifest:
    """One version. Raises NotFound, Corruption, UnsupportedFormat."""
    path = root / name
    body = unsealed(storage.read(str(path)).tobytes())
    if body is None:
        raise Corruption("the manifest's checksum does not match", path=str(path), offset=0)
    try:
        document = json.loads(body)
        if document["format"] > FORMAT:
            raise UnsupportedFormat(f"{path} has manifest format {document['format']}; this build reads 1 to {FORMAT}")
        entries = [TableEntry.from_json(entry) for entry in document["tables"]]
        version, sequence = int(document["version"]), int(document["sequence"])
        next_table, next_file = int(document["next_table"]), int(document["next_file"])
        views = {view.name: view for view in (ViewEntry(*values) for values in document.get("views", ()))}
    except InvalidInput as error:  # a type or option of a later build
        raise UnsupportedFormat(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, LookupError) as error:
        raise Corruption(f"the manifest is malformed: {error}", path=str(path), offset=0) from None
    return Manifest(version, sequence, next_table, next_file, {entry.table.name: entry for entry in entries}, views)


def require_view(views: Mapping[str, ViewEntry], name: str) -> ViewEntry:
    """A view by its name, whatever the case. Raises NotFound with the nearest name."""
    folded = {view.name.lower(): view for view in views.values()}
    found = views.get(name) or folded.get(name.lower())
    if found is None:
        raise NotFound(f"no materialized view {name!r}; {hint(name, views)}")
    return found


def versions(root: Path) -> list[str]:
    """Names of the manifests in the directory, the newest first."""
    found = (f"{FOLDER}/{name}" for name in os.listdir(root / FOLDER)) if (root / FOLDER).is_dir() else iter(())
    return sorted((name for name in found if _NAME.fullmatch(name)), reverse=True)


def _highest(root: Path, storage: Storage) -> Manifest:
    """The newest version, which no crash leaves damaged; raises NotFound where there is no manifest at all, and Corruption."""
    for name in versions(root):
        with suppress(NotFound):  # the writer has removed it meanwhile
            return read(root, name, storage)
    raise NotFound(f"{root} holds no database: it has no {CURRENT_NAME} and no manifest")


def sealed(body: str) -> bytes:
    """One line of text and the line of its checksum."""
    raw = body.encode()
    return raw + b"\nxxh3 " + xxhash.xxh3_64_hexdigest(raw).encode() + b"\n"


def unsealed(raw: bytes) -> str | None:
    """The text that was sealed, or None where a byte of it changed."""
    body, _, seal = raw.partition(b"\nxxh3 ")
    if seal != xxhash.xxh3_64_hexdigest(body).encode() + b"\n":
        return None
    return body.decode()


def write_whole(path: Path, data: bytes, storage: Storage = DISK) -> None:
    """Write a small file so that it is there entirely or not at all, durably."""
    with NewFile(str(path), storage) as file:
        file.write(data)
        file.commit()


def require(manifest: Manifest, name: str) -> TableEntry:
    """The entry of a table, by its exact name or, failing that, whatever the case. Raises NotFound."""
    entry = manifest.tables.get(name)
    if entry is not None:
        return entry
    for known, candidate in manifest.tables.items():
        if known.lower() == name.lower():
            return candidate
    raise NotFound(f"no table {name!r}; {hint(name, manifest.tables, 'the database has no tables')}")


def check_name(manifest: Manifest, name: str) -> None:
    """Refuse a table name that is empty, over-long, unprintable or taken."""
    if not name or len(name.encode()) > 255 or not name.isprintable():
        raise InvalidInput(f"a table cannot be named {name!r}")
    if any(known.lower() == name.lower() for known in manifest.tables):
        raise InvalidInput(f"there is a table {name!r} already")

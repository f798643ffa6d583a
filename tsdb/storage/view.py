"""Materialized views in the catalog: what is created, stopped and dropped by commits of the manifest.

How far a view is belongs to the rows that it wrote: it is in the same record of the log as they are, or the same manifest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsdb.catalog.table import Table, TableOptions, check_columns
from tsdb.storage import manifest as manifests
from tsdb.storage.handover import Handover
from tsdb.storage.manifest import Manifest, TableEntry, ViewEntry
from tsdb_format.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tsdb.storage.writer import Writer
    from tsdb_format.schema import Schema


def create_view(writer: Writer, name: str, text: str, target: str | tuple[Schema, TableOptions], checkpoint: str) -> ViewEntry:
    """Add a view that writes to a table, which is made for it where its schema is given; ``checkpoint`` is where it begins.

    Raises InvalidInput, NotFound.
    """
    with writer.writing():
        manifest = writer.versions.manifest
        if name.lower() in {known.lower() for known in manifest.views}:
            raise InvalidInput(f"there is a materialized view {name!r} already")
        manifests.check_name(manifest, name)
        number = manifest.next_table
        if isinstance(target, str):
            entry = manifests.require(manifest, target)
        else:
            schema, options = target
            check_columns(schema.columns)
            table = Table(number + 1, name, schema, options, 1 + max(column.id for column in schema))
            entry = TableEntry(table)
        view = ViewEntry(number, name, entry.table.id, own=not isinstance(target, str), text=text)
        manifest = manifest.with_view(view)
        entry = entry.with_checkpoints({number: (writer.sequence, checkpoint)}, manifest.views.values())
        writer.commit(replace(manifest.with_table(entry), next_table=number + 2))
        return view


def drop_view(writer: Writer, name: str) -> ViewEntry:
    """Remove a view, with the table that was made for it. Raises NotFound."""
    with writer.writing():
        manifest = writer.versions.manifest
        view = manifests.require_view(manifest.views, name)
        manifest = replace(manifest, views={key: each for key, each in manifest.views.items() if each.id != view.id})
        target = manifest.target_of(view)
        handover = Handover()
        if target is not None and view.own:
            manifest = manifest.without_table(target.table.name)
            handover = Handover(target.names)
        elif target is not None:
            left = {key: each for key, each in target.checkpoints.items() if key != view.id}
            manifest = manifest.with_table(replace(target, checkpoints=left))
        writer.commit(manifest, handover)
        return view


def check_writes(manifest: Manifest, entry: TableEntry, view: ViewEntry) -> None:
    """Raise NotFound where a view is no more, or does not write to a table."""
    if all(known.id != view.id or known.target != entry.table.id for known in manifest.views.values()):
        raise NotFound(f"materialized view {view.name!r} was dropped")


def note_problem(writer: Writer, view: ViewEntry, problem: str | None) -> None:
    """Say why a view is stopped, or that it is not any more; nothing where that is known, or where the view is gone."""
    with writer.writing():
        manifest = writer.versions.manifest
        known = manifest.views.get(view.name)
        if known is not None and known.id == view.id and known.problem != problem:
            writer.commit(manifest.with_view(replace(known, problem=problem)))

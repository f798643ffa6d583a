"""Other stores of wide columns, where they are installed: Lance (``pip install pylance``) and chDB (``pip install chdb``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

#: What asks a store the one question of ``benchmarks.join``, for an Arrow table.
Ask = Callable[[str], Any]


class LancePeer:
    """Frames as a Lance dataset: joined by DuckDB, which reads it as it is, and by hand, key first and a take of what is left."""

    def __init__(self, path: str, selected: np.ndarray[Any, Any]) -> None:
        """Raises ImportError where there is no Lance."""
        import lance

        self._lance = lance
        self._path = path
        self._selected = selected
        self._dataset: Any = None

    def add(self, part: pa.Table) -> None:
        """Append frames."""
        import pyarrow as pa

        at = part.schema.get_field_index("image")
        part = part.set_column(at, "image", part["image"].cast(pa.large_binary()))
        self._dataset = self._lance.write_dataset(part, self._path, mode="create" if self._dataset is None else "append")

    def ways(self) -> list[tuple[str, Ask]]:
        """The ways to ask."""
        return [("Lance, keys and take", self._take), ("Lance through DuckDB", self._through_duckdb)]

    def _take(self, sql: str) -> Any:
        del sql
        keys = self._dataset.to_table(columns=["frame_id"]).column("frame_id").to_numpy()
        places = np.flatnonzero(np.isin(keys, self._selected))
        return self._dataset.take(places, columns=["frame_id", "image", "embedding"])

    def _through_duckdb(self, sql: str) -> Any:
        import tempfile

        import duckdb
        import pyarrow as pa

        with duckdb.connect(config={"temp_directory": tempfile.gettempdir()}) as connection:  # else the current directory
            connection.register("frames", self._dataset)
            connection.register("selected", pa.table({"frame_id": self._selected}))
            return connection.sql(sql).to_arrow_table()


class ChdbPeer:
    """Frames as a MergeTree of chDB, in its process."""

    def __init__(self, path: str, selected: np.ndarray[Any, Any]) -> None:
        """Raises ImportError where there is no chDB."""
        from chdb.session import Session

        self._path = path
        self._session = Session(f"{path}/chdb")
        self._session.query("CREATE DATABASE d")
        self._session.query(
            "CREATE TABLE d.frames (time DateTime64(6), frame_id Int64, image String, embedding Array(Float32)) "
            "ENGINE = MergeTree ORDER BY frame_id"
        )
        self._session.query("CREATE TABLE d.selected (frame_id Int64) ENGINE = MergeTree ORDER BY frame_id")
        self._session.query(f"INSERT INTO d.selected VALUES {', '.join(f'({key})' for key in selected.tolist())}")

    def add(self, part: pa.Table) -> None:
        """Append frames."""
        import pyarrow.parquet as pq

        pq.write_table(part, f"{self._path}/part.parquet", compression="none")
        self._session.query(f"INSERT INTO d.frames SELECT * FROM file('{self._path}/part.parquet', Parquet)")

    def ways(self) -> list[tuple[str, Ask]]:
        """The ways to ask."""
        return [("chDB", self._ask)]

    def _ask(self, sql: str) -> Any:
        import pyarrow as pa

        text = sql.replace("FROM selected", "FROM d.selected").replace("JOIN frames", "JOIN d.frames")
        found = self._session.query(f"{text} SETTINGS output_format_arrow_string_as_string = 0", "ArrowStream").bytes()
        return pa.ipc.open_stream(found).read_all()


def peers(folder: str, selected: np.ndarray[Any, Any]) -> list[LancePeer | ChdbPeer]:
    """Those that are installed."""
    made: list[LancePeer | ChdbPeer] = []
    for make in (lambda: LancePeer(f"{folder}/frames.lance", selected), lambda: ChdbPeer(folder, selected)):
        try:
            made.append(make())
        except ImportError:
            continue
    return made

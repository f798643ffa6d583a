"""The footer's table of payload files: which files hold blobs of a data file's rows. Absent where all blobs are in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.blob import LOCATOR, kinds_of
from tsdb_format.errors import Corruption
from tsdb_format.kernels.text import gather_bytes
from tsdb_format.section import Container
from tsdb_format.vector import Pool, Vector

#: The length that is noted of a file that is not the database's own.
NOT_OWNED = -1


@dataclass(frozen=True, slots=True)
class Payload:
    """A file of payloads that a data file names: its length (or ``NOT_OWNED``), and how many bytes the data file's blobs have."""

    name: str
    bytes: int
    live_bytes: int


def payload_sections(payloads: Sequence[Payload]) -> dict[str, NDArray[Any]]:
    """The table as sections of a footer."""
    if not payloads:
        return {}
    names = Pool.of([each.name.encode() for each in payloads])
    sizes = np.array([[each.bytes for each in payloads], [each.live_bytes for each in payloads]], np.int64)
    return {"payload.offsets": names.offsets, "payload.names": names.data, "payload.bytes": sizes[0], "payload.live": sizes[1]}


class PayloadTable:
    """The table of an open data file."""

    def __init__(self, container: Container) -> None:
        """Raises Corruption where it is malformed."""
        self._container = container
        self.names, self.sizes, self.live = Pool.of([]), np.empty(0, np.int64), np.empty(0, np.int64)
        if "payload.offsets" not in container:
            return
        offsets, data = container.array("payload.offsets", "<i8"), container.array("payload.names", "<u1")
        self.sizes, self.live = container.array("payload.bytes", "<i8"), container.array("payload.live", "<i8")
        good = len(offsets) > 1 and offsets[0] == 0 and offsets[-1] == len(data) and bool((offsets[1:] > offsets[:-1]).all())
        if not (good and len(self.sizes) == len(self.live) == len(offsets) - 1):
            raise self._corrupt("the table of payload files is malformed")
        self.names = Pool(offsets, data)

    def payloads(self) -> tuple[Payload, ...]:
        """The files. Raises Corruption where a name is none."""
        try:
            names = [name.decode() for name in self.names.tolist()]
        except UnicodeDecodeError:
            raise self._corrupt("the name of a payload file is no text") from None
        return tuple(map(Payload, names, self.sizes.tolist(), self.live.tolist()))

    def named(self, vector: Vector) -> Vector:
        """The vector of cells as pages have them with cells as they are in memory: each locator with its file's name."""
        pool = vector.pool
        if pool is None or pool.kinds is None:
            return vector
        outside = np.flatnonzero(kinds_of(pool))
        starts = pool.offsets[outside]
        source = pool.data[starts[:, None] + np.arange(4)].reshape(-1).view("<u4").astype(np.int64)
        if len(source) and int(source.max()) >= len(self.names):
            raise self._corrupt("a blob is in a payload file that is not named")
        pieces = np.zeros((len(pool), 2), np.int64)  # of each cell: its own bytes, then those of the name
        sizes = np.zeros((len(pool), 2), np.int64)
        pieces[:, 0], sizes[:, 0] = pool.offsets[:-1], np.diff(pool.offsets)
        pieces[outside, 1] = self.names.offsets[source] + len(pool.data)
        sizes[outside, 1] = self.names.offsets[source + 1] - self.names.offsets[source]
        offsets = np.zeros(len(pool) + 1, np.int64)
        np.cumsum(sizes.sum(axis=1), out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        gather_bytes(np.concatenate([pool.data, self.names.data]), pieces.reshape(-1), sizes.reshape(-1), data)
        data[offsets[:-1][outside][:, None] + np.arange(LOCATOR.fields["source"][0].itemsize)] = 0  # type: ignore[index]
        return Vector(vector.type, vector.values, vector.validity, Pool(offsets, data, pool.kinds))

    def _corrupt(self, message: str) -> Corruption:
        return self._container.corrupt(message, self._container.directory_offset)

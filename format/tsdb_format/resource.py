"""The resource: a file's time index by device, kept in the ``.res`` sidecar so that the newest devices are found without a search.

The sidecar repeats what the file knows, names the file by its digest, and is never trusted beyond that: where it is absent, belongs
to another file or cannot be read, the index is rebuilt from the file in memory and ``rebuilt`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.disk import DISK, NewFile, Storage
from tsdb_format.errors import Corruption, Error, NotFound
from tsdb_format.section import Container, append_sections, header_bytes
from tsdb_format.vector import IntArray

if TYPE_CHECKING:
    from tsdb_format.reader import TsFile

MAGIC = b"tsdbres\n"
SUFFIX = ".res"
Int32Array = NDArray[np.int32]


def resource_path(path: str) -> str:
    """The sidecar of a data file: the same stem."""
    return path.removesuffix(".tsf") + SUFFIX


def device_orders(min_time: IntArray, max_time: IntArray) -> tuple[Int32Array, Int32Array]:
    """Devices by min time ascending and by max time descending; ties in tag order."""
    ascending = np.argsort(min_time, kind="stable").astype(np.int32)
    return ascending, np.argsort(~max_time, kind="stable").astype(np.int32)


def write_resource(
    path: str,
    digest: int,
    times: Mapping[str, IntArray],
    device_number: Int32Array | None,
    *,
    sync: bool,
    storage: Storage = DISK,
) -> int:
    """Write the sidecar of the data file ``path`` with that digest; ``times`` holds min_time and max_time. Returns its bytes."""
    by_min, by_max = device_orders(times["min_time"], times["max_time"])
    arrays: dict[str, NDArray[Any]] = {**times, "by_min_time": by_min, "by_max_time": by_max}
    if device_number is not None:
        arrays["device_number"] = np.ascontiguousarray(device_number, "<i4")
    with NewFile(resource_path(path), storage) as file:
        file.write(header_bytes(MAGIC))
        append_sections(file, MAGIC, arrays, {"file": f"{digest:016x}", "devices": len(by_min)})
        file.commit(sync=sync, sync_name=False)
        return file.position


class Resource:
    """The time index of one open file. Every array has one element per device of the file."""

    __slots__ = ("_arrays", "_container", "_file", "reason")

    def __init__(self, file: TsFile, storage: Storage = DISK) -> None:
        self._file = file
        self._arrays: dict[str, NDArray[Any]] = {}
        self._container: Container | None = None
        #: Why the sidecar is not used; empty while it is.
        self.reason = ""
        try:
            container = Container(resource_path(file.path), MAGIC, storage)
        except NotFound:
            self.reason = "absent"
        except Error as error:  # damaged, of a later format, or refused by the disk
            self.reason = str(error)
        else:
            if container.attributes.get("file") == f"{file.digest:016x}":
                self._container = container
            else:
                self.reason = "belongs to another file"

    @property
    def rebuilt(self) -> bool:
        """Whether the file itself serves as the source, for want of a good sidecar."""
        return self._container is None

    def verify(self) -> str:
        """Use every array of the sidecar; returns why it does not serve, or an empty string."""
        _ = self.min_time, self.max_time, self.by_min_time, self.by_max_time, self.device_number
        return self.reason

    @property
    def min_time(self) -> IntArray:
        """Each device's first time."""
        return self._array("min_time", "<i8")

    @property
    def max_time(self) -> IntArray:
        """Each device's last time."""
        return self._array("max_time", "<i8")

    @property
    def by_min_time(self) -> Int32Array:
        """Devices by min time ascending; ties in tag order."""
        return self._array("by_min_time", "<i4")

    @property
    def by_max_time(self) -> Int32Array:
        """Devices by max time descending; ties in tag order."""
        return self._array("by_max_time", "<i4")

    @property
    def device_number(self) -> Int32Array | None:
        """Each device's number in the table; None where the sidecar is not there to tell."""
        container = self._container
        if container is None or "device_number" not in container:
            return None
        found = self._array("device_number", "<i4")
        return found if len(found) else None

    def _array(self, name: str, dtype: str) -> NDArray[Any]:
        found = self._arrays.get(name)
        if found is None:
            found = self._load(name, dtype)
            if found is None:
                self._rebuild()
                found = self._arrays.get(name, np.empty(0, np.int32))
            else:
                self._arrays[name] = found
        return found

    def _load(self, name: str, dtype: str) -> NDArray[Any] | None:
        """A section of the sidecar, or None where it cannot be used."""
        container = self._container  # looked at once: another thread may give it up
        if container is None:
            return None
        count = self._file.device_count
        try:
            found = container.array(name, dtype)
        except Corruption as error:
            self.reason = str(error)
            return None
        outside = name.startswith("by_") and len(found) and (int(found.min()) < 0 or int(found.max()) >= count)
        if len(found) != count or outside:
            self.reason = f"section {name!r} does not fit the file"
            return None
        return found

    def _rebuild(self) -> None:
        self._container = None
        self.reason = self.reason or "absent"
        first, stop = self._file.row_start[:-1], self._file.row_start[1:]
        name = self._file.schema.time.name
        min_time = self._file.read(name, first, first + 1).values
        max_time = self._file.read(name, stop - 1, stop).values
        by_min, by_max = device_orders(min_time, max_time)
        self._arrays = {"min_time": min_time, "max_time": max_time, "by_min_time": by_min, "by_max_time": by_max}

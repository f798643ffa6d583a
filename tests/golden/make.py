"""Make the golden files of the current format version: ``python tests/golden/make.py [--dumps]``.

A golden is a data file, its sidecar, its rows as JSON and its byte dump. Files of a version are made once, when the version is new,
and never again: they stand for what is on people's disks. ``--dumps`` writes only the dumps anew, for when their text changes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parent.parent / "format"), str(FOLDER.parent)]

import numpy as np  # noqa: E402

from support.blob_case import blob_case, blob_vector, vector_case  # noqa: E402
from support.file_case import FileCase  # noqa: E402
from tsdb_format.dump import dump_file  # noqa: E402
from tsdb_format.section import FORMAT_VERSION  # noqa: E402
from tsdb_format.types import Kind  # noqa: E402
from tsdb_format.vector import Vector  # noqa: E402

BLOBS = [b"inline", None, b"", b"packed" * 5, b"dedicated" * 30, b"packed" * 6]


def goldens() -> dict[str, FileCase]:
    """The files of the newest version, which has blobs outside of pages: one of each kind that lies beside its file.

    ``balls`` has vectors, in blocks without a vector, without a bound and with one.
    """
    return {"balls": vector_case(blob_vector(BLOBS)), "blobs": blob_case(blob_vector(BLOBS))}


def plain_values(vector: Vector) -> list[Any]:
    """A vector as JSON values that lose nothing: floats as hexadecimal bits, blobs as hexadecimal bytes, strings as text."""
    valid = vector.valid().tolist()
    if vector.pool is not None:
        texts = vector.pool.tolist()
        show = bytes.hex if vector.type.kind is Kind.BLOB else bytes.decode
        return [show(texts[code]) if ok else None for code, ok in zip(vector.values.tolist(), valid, strict=True)]
    values = vector.values
    if values.dtype.kind == "f":
        bits = np.ascontiguousarray(values).view(f"u{values.itemsize}")
        values = np.vectorize(lambda word: f"{word:0{2 * values.itemsize}x}", otypes=[object])(bits)
    return [value if ok else None for value, ok in zip(values.tolist(), valid, strict=True)]


def document(case: FileCase) -> dict[str, Any]:
    """What a golden must read as."""
    return {
        "rows_per_page": case.rows_per_page,
        "columns": [[column.id, column.name, str(column.type), column.role.name] for column in case.schema],
        "row_start": case.row_start.tolist(),
        "device_number": None if case.device_number is None else case.device_number.tolist(),
        "tags": {name: plain_values(vector) for name, vector in case.device_tags.items()},
        "values": {name: plain_values(vector) for name, vector in case.columns.items()},
    }


def main() -> None:
    """Write what is missing."""
    folder = FOLDER / f"v{FORMAT_VERSION}"
    folder.mkdir(exist_ok=True)
    for name, case in goldens().items():
        path = folder / f"{name}.tsf"
        if "--dumps" not in sys.argv:
            if path.exists():
                print(f"{path} exists: golden files are made once and kept")
                continue
            case.write(path)
            lines = json.dumps(document(case), ensure_ascii=False, separators=(",", ":")).replace('],"', '],\n"')
            path.with_suffix(".json").write_text(lines + "\n", encoding="utf-8")
        path.with_suffix(".bytes").write_text("\n".join(dump_file(path)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

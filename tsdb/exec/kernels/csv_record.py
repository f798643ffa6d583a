"""Finding the records of a CSV text: where each starts, on which line, with quoted newlines understood."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(u8[in], i64, b1, u8, u8, i64[out], i64[out], i64[out]) -> i64")
def find_records(data, at, final, delimiter, quote, starts, stops, lines):  # type: ignore[no-untyped-def]
    """Write the extents of the complete records from ``at`` on; returns how many.

    starts, stops i64[m]: first byte and end without the line break; lines i64[m]: line breaks from ``at`` to the record's start.
    An empty line is a record of length 0. ``final``: the data ends here, so that a last record without a line break is complete.
    """
    count = 0
    line = 0
    size = len(data)
    while at < size and count < len(starts):
        starts[count] = at
        lines[count] = line
        inside = False
        fresh = True
        while at < size:
            byte = data[at]
            if inside:
                if byte == quote:
                    if at + 1 < size and data[at + 1] == quote:
                        at += 1
                    else:
                        inside = False
                elif byte == 10:
                    line += 1
            elif byte == 10 or byte == 13:
                break
            elif byte == quote and fresh:
                inside = True
            fresh = byte == delimiter or (fresh and byte == 32)
            at += 1
        if at >= size and not final:
            break
        stops[count] = at
        if at + 1 < size and data[at] == 13 and data[at + 1] == 10:
            at += 1
        elif at + 1 == size and data[at] == 13 and not final:
            break
        at += 1
        line += 1
        count += 1
    return count

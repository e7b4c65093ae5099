"""A search for records in bytes: as text, as floats of both widths and byte orders, and in hex."""

import re

import numpy as np

_HEX = re.compile(rb"[0-9a-f]{16,}")
FLOATS = ("<f4", ">f4", "<f8", ">f8")


def text_needles(file):
    """The numbers of every row as they stand in the file, but for their last digits."""
    rows = [line.split(",") for line in file.read_text().splitlines()[1:]]
    return [cell[:11].encode() for row in rows for cell in row if len(cell) > 11]


def float_needles(rows):
    """Eight bytes each: single numbers in double precision, neighbouring ones in single."""
    found = []
    for dtype in FLOATS:
        numbers = np.asarray(rows, dtype)
        width = 8 // numbers.dtype.itemsize
        for start in range(numbers.shape[1] - width + 1):
            some = numbers[:, start : start + width]
            for ordered in (some, some[:, ::-1]):
                fractional = ordered[np.all(np.abs(some) > 1e-6, axis=1) & np.any(some % 1, axis=1)]
                found += [np.ascontiguousarray(row).tobytes() for row in fractional]
    return found


def raw_rows(file):
    """The numbers of every row of a file of generated records."""
    lines = file.read_text().splitlines()[1:]
    return np.array([[float(cell) for cell in line.split(",")[:3]] for line in lines])


def needles(files, encoded=None):
    """All that stands for a record, of files and of rows as they were encoded."""
    found = [] if encoded is None else float_needles(encoded)
    for file in files:
        found += text_needles(file) + float_needles(raw_rows(file))
    return list(dict.fromkeys(found))


def unhexed(content):
    """What stands in a text as hexadecimal digits."""
    return [bytes.fromhex(run[: len(run) // 2 * 2].decode()) for run in _HEX.findall(content)]


def leaked(wanted, contents):
    """The needles that occur in any of the contents, or in the hexadecimal digits of one."""
    every = [part for content in contents for part in (content, *unhexed(content))]
    hay = b"\0".join(every)
    eight = np.unique(np.concatenate([np.frombuffer(hay[k:], "<u8", (len(hay) - k) // 8)
                                      for k in range(8)]))  # fmt: skip
    floats = [needle for needle in wanted if len(needle) == 8]
    there = np.isin(np.frombuffer(b"".join(floats), "<u8"), eight)
    found = {needle for needle, one in zip(floats, there, strict=True) if one}
    found |= {needle for needle in wanted if len(needle) != 8 and needle in hay}
    return [needle for needle in wanted if needle in found]

"""A search for records in bytes: as text, as floats of both widths and byte orders, and in hex."""

import re

import numpy as np

_HEX = re.compile(rb"[0-9a-f]{16,}")
FLOATS = ("<f4", ">f4", "<f8", ">f8")


def text_needles(file):
    """The numbers of every row as they stand in the file, but for their last digits."""
    rows = [line.split(",") for line in file.read_text().splitlines()[1:]]
    return [cell[:9].encode() for row in rows for cell in row if len(cell) > 9]


def float_needles(rows):
    """Neighbouring numbers of every row as floats; single numbers too where eight bytes tell."""
    found = []
    for row in rows:
        for dtype in FLOATS:
            numbers = np.asarray(row, dtype)
            pairs = [numbers[k : k + 2] for k in range(len(numbers) - 1)]
            singles = list(numbers) if numbers.dtype.itemsize == 8 else []
            for some in (*pairs, *(pair[::-1] for pair in pairs), *singles):
                if np.all(np.abs(some) > 1e-6) and np.any(some != np.round(some)):
                    found.append(np.asarray(some, dtype).tobytes())
    return found


def raw_rows(file):
    """The numbers of every row of a file of generated records."""
    lines = file.read_text().splitlines()[1:]
    return np.array([[float(cell) for cell in line.split(",")[:3]] for line in lines])


def needles(files, encoded=()):
    """All that stands for a record, of files and of rows as they were encoded."""
    found = []
    for file in files:
        found += text_needles(file) + float_needles(raw_rows(file))
    return found + float_needles(encoded)


def unhexed(content):
    """What stands in a text as hexadecimal digits."""
    return [bytes.fromhex(run[: len(run) // 2 * 2].decode()) for run in _HEX.findall(content)]


def leaked(wanted, contents):
    """The needles that occur in any of the contents, or in the hexadecimal digits of one."""
    every = [part for content in contents for part in (content, *unhexed(content))]
    hay = b"\0".join(every)
    return [needle for needle in wanted if needle in hay]

#!/usr/bin/env python3
"""Compares gpured-npy with NumPy on a file of gigabytes, which it may not hold in memory.

    npy_big.py PATH-TO-GPURED-NPY

Runs with GPURED_SLOW=1 only. The file has GPURED_BIG_MIB MiB (default 2048), in TMPDIR, and needs up
to four times that of disk. gpured-npy runs with a limit (RLIMIT_DATA) on the memory that it may
have beside mapped files: an eighth of the file, at least 256 MiB. One file serves for several types, by another
header: whatever the bits mean, integers, maxima and indices must be NumPy's, float sums within the
bounds of docs/ORDER.md section 9. Prints a line of figures for each case; the last line counts.
"""

import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np

    from npy_check import COUNT, depth, skip, verdict
except ImportError:
    np = None

PROGRAM = ""
HEADER = 128
COLUMNS = 1024
ROWS_AT_ONCE = 16384  # of NumPy's pieces


def write_header(path, code, shape):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (code, shape)
    text = text.ljust(HEADER - 11) + "\n"
    with open(path, "r+b") as f:
        f.write(b"\x93NUMPY\x01\0" + bytes([HEADER - 10, 0]) + text.encode())


def make(path, rows):
    rng = np.random.default_rng(1936)
    with open(path, "wb") as f:
        f.write(bytes(HEADER))
        for row in range(0, rows, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, rows - row)
            f.write(rng.standard_normal((n, COLUMNS), dtype="f4").tobytes())


def memory_of(process):
    """KiB of memory that is no file's, and of all: RssAnon, VmRSS."""
    found = {}
    try:
        with open("/proc/%d/status" % process.pid) as f:
            for line in f:
                if line.startswith(("RssAnon:", "VmRSS:")):
                    found[line.split(":")[0]] = int(line.split()[1])
    except OSError:
        pass
    return found.get("RssAnon", 0), found.get("VmRSS", 0)


def run(args, limit):
    """Gives seconds, peak KiB of own memory, peak KiB with the pages of files; None: it failed."""

    def prepare():
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    start, own, total = time.monotonic(), 0, 0
    process = subprocess.Popen(
        [PROGRAM] + args, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=prepare
    )
    while process.poll() is None:
        now = memory_of(process)
        own, total = max(own, now[0]), max(total, now[1])
        time.sleep(0.005)
    said = process.stderr.read().decode()
    process.stderr.close()
    if process.returncode != 0:
        return None, said
    return (time.monotonic() - start, own, total), said


def case(name, args, path, out, limit, reference):
    """Runs gpured-npy, then NumPy, and tells both times. reference(x, got) says what is wrong."""
    done, said = run(args + [path, "-o", out], limit)
    if done is None:
        verdict(name, "it failed: %s" % said.strip())
        return
    start = time.monotonic()
    wrong = reference(np.load(path, mmap_mode="r"), np.load(out, mmap_mode="r"))
    print(
        "%-28s %6.2f s, own memory %4d MiB, with mapped pages %5d MiB; checked with NumPy in %6.2f s"
        % (name, done[0], done[1] // 1024, done[2] // 1024, time.monotonic() - start)
    )
    verdict(name, wrong)
    os.remove(out)


# ---- references: each goes through the mapped file once ------------------------------------------


def in_pieces(x):
    """x in pieces of whole rows."""
    step = ROWS_AT_ONCE if x.ndim == 2 else ROWS_AT_ONCE * COLUMNS
    for row in range(0, x.shape[0], step):
        yield row, x[row : row + step]


def exactly(function, combine):
    """A reference that has one answer: `function` of each piece, combined."""

    def check(x, got):
        want = combine([function(piece) for _, piece in in_pieces(x)])
        same = np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
        return None if same else "got %s, not %s" % (got.ravel()[:4], np.ravel(want)[:4])

    return check


def first_largest(x, got):
    best, at, start = -np.inf, -1, 0
    for _, piece in in_pieces(x):
        k = int(piece.argmax())
        if piece.ravel()[k] > best:
            best, at = piece.ravel()[k], start + k
        start += piece.size
    return None if int(got) == at else "got %d, not %d" % (int(got), at)


def sums(axis):
    """Sums in double precision beside the sums of absolute values, which make the bound."""

    def check(x, got):
        n = x.size if axis is None else x.shape[axis]
        parts = [
            (piece.sum(axis, dtype="f8"), np.abs(piece).sum(axis, dtype="f8"))
            for _, piece in in_pieces(x)
        ]
        want, size = (
            np.concatenate([p[i] for p in parts]) if axis == 1 else np.sum([p[i] for p in parts], 0)
            for i in (0, 1)
        )
        allowed = (depth(n) + 2) * 2.0**-24 * size
        worst = np.max(np.abs(got - want) / allowed)
        return None if worst <= 1 else "off by %s of what is allowed" % worst

    return check


def prefix_sums(axis):
    """Scans of float32, along rows or from the start of the file to its end."""

    def check(x, got):
        n = x.shape[axis]
        levels = math.ceil(math.log(n, 16) - 1e-9)
        u = (5 * levels + 1) * 2.0**-24 + n * 2.0**-53
        before, size, worst = 0.0, 0.0, 0.0
        for row, piece in in_pieces(x):
            y = np.cumsum(piece, axis=axis, dtype="f8") + before
            a = np.cumsum(np.abs(piece), axis=axis, dtype="f8") + size
            worst = max(worst, float(np.max(np.abs(got[row : row + len(piece)] - y) / (u * a))))
            if x.ndim == 1:
                before, size = y[-1], a[-1]
        return None if worst <= 1 else "off by %s of what is allowed" % worst

    return check


def integer_prefix_sums(x, got):
    for row, piece in in_pieces(x):
        if not np.array_equal(got[row : row + len(piece)], np.cumsum(piece, axis=1, dtype="i8")):
            return "wrong in the rows from %d on" % row
    return None


def all_cases(path, out, rows, limit):
    def one(name, args, code, shape, reference):
        write_header(path, code, shape)
        case(name, args, path, out, limit, reference)

    matrix, line = (rows, COLUMNS), (rows * COLUMNS,)
    one("f4 sum", ["reduce", "sum"], "<f4", line, sums(None))
    one("f4 sum, axis 0", ["reduce", "sum", "--axis", "0"], "<f4", matrix, sums(0))
    one("f4 sum, axis 1", ["reduce", "sum", "--axis", "1"], "<f4", matrix, sums(1))
    one(
        "f4 max, axis 1",
        ["reduce", "max", "--axis", "1"],
        "<f4",
        matrix,
        exactly(lambda p: p.max(1), np.concatenate),
    )
    one("f4 argmax", ["reduce", "argmax"], "<f4", matrix, first_largest)
    one("f4 scan sum", ["scan", "sum"], "<f4", line, prefix_sums(0))
    one("f4 scan sum, axis 1", ["scan", "sum", "--axis", "1"], "<f4", matrix, prefix_sums(1))
    one(
        "i4 sum, axis 0",
        ["reduce", "sum", "--axis", "0"],
        "<i4",
        matrix,
        exactly(lambda p: p.sum(0, dtype="i8"), lambda parts: np.sum(parts, 0)),
    )
    one("i4 scan sum, axis 1", ["scan", "sum", "--axis", "1"], "<i4", matrix, integer_prefix_sums)
    one(
        ">i4 max, axis 1",
        ["reduce", "max", "--axis", "1"],
        ">i4",
        matrix,
        exactly(lambda p: p.max(1), np.concatenate),
    )
    one(
        "i2 sum, axis 1",
        ["reduce", "sum", "--axis", "1"],
        "<i2",
        (rows, 2 * COLUMNS),
        exactly(lambda p: p.sum(1, dtype="i8"), np.concatenate),
    )


def main():
    global PROGRAM
    if len(sys.argv) != 2:
        sys.exit("usage: npy_big.py PATH-TO-GPURED-NPY")
    if os.environ.get("GPURED_SLOW") != "1":
        print("SKIP npy_big: slow, runs with GPURED_SLOW=1")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    PROGRAM = os.path.abspath(sys.argv[1])
    size = int(os.environ.get("GPURED_BIG_MIB", "2048")) << 20
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 4 * size:
            skip("npy_big", "less than %d MiB free in %s" % (4 * size >> 20, folder))
        else:
            path = os.path.join(folder, "big.npy")
            rows = size // (4 * COLUMNS)
            make(path, rows)
            all_cases(path, os.path.join(folder, "out.npy"), rows, max(size // 8, 256 << 20))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return 1 if COUNT["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

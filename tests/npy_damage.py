#!/usr/bin/env python3
"""Feeds damaged and hostile .npy files and wrong arguments to gpured-npy.

    npy_damage.py PATH-TO-GPURED-NPY [NAME-PART]

Whatever comes, the program must end with exit status 0 and a silent stderr, or with exit status 1,
an empty stdout and exactly one line on stderr: no signal, no sanitizer report, no half-written
file. Where it is known what must be refused, and why, that is checked too. Needs no NumPy. The last
line counts: N passed, N failed, N skipped.
"""

import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = ""
ONLY = ""
COUNT = {"passed": 0, "failed": 0, "skipped": 0}
SMALL_MEMORY = 1 << 30  # address space in which hostile shapes must be refused


# ---- running and judging -------------------------------------------------------------------------


def run(args, stdin=b"", limits=(), user=None):
    """Runs the program, perhaps as another user, under limits, which are (resource, value) pairs.
    Gives (status, stdout, stderr); a program that does not end has the status None."""

    def prepare():
        for which, value in limits:
            resource.setrlimit(which, (value, value))
        if user is not None:
            os.setuid(user)

    try:
        done = subprocess.run(
            [PROGRAM] + args,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
            preexec_fn=prepare,
        )
    except subprocess.TimeoutExpired:
        return None, b"", b"no end within a minute"
    return done.returncode, done.stdout, done.stderr


def fault(result, want_status, want_text):
    """What is wrong with a result, or None."""
    status, out, err = result
    if status == 0 and err:
        return "exit 0 with something on stderr"
    if status == 1 and out:
        return "exit 1 with something on stdout"
    if status == 1 and (err.count(b"\n") != 1 or not err.endswith(b"\n")):
        return "exit 1 without exactly one line on stderr"
    if status == 1 and not err.startswith(b"gpured-npy: "):
        return "the line does not start with the program's name"
    if status not in (0, 1):
        return "exit status %s" % status
    if want_status is not None and status != want_status:
        return "exit status %s, not %d" % (status, want_status)
    if want_text is not None and want_text.encode() not in err:
        return "the message does not say '%s'" % want_text
    return None


def check(name, result, want_status=None, want_text=None):
    """Counts one case and tells what is wrong with it."""
    wrong = fault(result, want_status, want_text)
    COUNT["failed" if wrong else "passed"] += 1
    if wrong:
        print("FAIL %s: %s; stderr: %r" % (name, wrong, result[2][:300]))


def expect(name, right, what):
    """Counts one plain condition."""
    COUNT["passed" if right else "failed"] += 1
    if not right:
        print("FAIL %s: %s" % (name, what))


def skip(name, why):
    COUNT["skipped"] += 1
    print("SKIP %s: %s" % (name, why))


# ---- files ---------------------------------------------------------------------------------------


def npy(header, data=b"", version=1, length=None):
    """A .npy file with this text for a header; length replaces the true one."""
    text = header if isinstance(header, bytes) else header.encode("latin-1")
    size = len(text) if length is None else length
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if version == 1 else "<I", size)
        + text
        + data
    )


def dict_text(descr="'<f4'", fortran="False", shape="(3, 4)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)


DATA = struct.pack("<12f", *range(12))
GOOD = npy(dict_text().ljust(117) + "\n", DATA)
HEADER_BYTES = len(GOOD) - len(DATA)

HUGE = "9" * 18
# (name, file, expected status, part of the message)
HOSTILE = [
    ("good", GOOD, 0, None),
    ("empty", b"", 1, "empty"),
    ("text", b"hello, world\n", 1, "not a .npy file"),
    ("zip", b"PK\x03\x04" + bytes(60), 1, "not a .npy file"),
    ("magic-only", b"\x93NUMPY", 1, "truncated"),
    ("version-0", npy(dict_text(), DATA, 0), 1, "format 0.0"),
    ("version-4", npy(dict_text(), DATA, 4), 1, "format 4.0"),
    ("minor-1", b"\x93NUMPY\x01\x01" + GOOD[8:], 1, "format 1.1"),
    ("version-2", npy(dict_text(), DATA, 2), 0, None),
    ("version-3", npy(dict_text(), DATA, 3), 0, None),
    ("header-4GiB", npy(dict_text(), DATA, 2, 0xFFFFFFFF), 1, "header of 4294967295 bytes"),
    ("header-64KiB", npy(dict_text(), DATA, 2, 65536), 1, "header of 65536 bytes"),
    ("header-65535-short", npy(dict_text(), DATA, 1, 65535), 1, "truncated"),
    ("header-65535", npy(dict_text().ljust(65535), DATA), 0, None),
    ("header-0", npy("", DATA), 1, "malformed"),
    ("header-1", npy("{", DATA), 1, "malformed"),
    ("header-blank", npy(" " * 64, DATA), 1, "malformed"),
    ("header-zeros", npy(bytes(64), DATA), 1, "malformed"),
    ("header-braces", npy("{" * 5000, DATA), 1, "malformed"),
    ("header-parens", npy(dict_text(shape="(" * 5000), DATA), 1, "malformed"),
    ("header-ff", npy(b"\xff" * 118, DATA), 1, "malformed"),
    ("no-dict", npy("[1, 2]", DATA), 1, "malformed"),
    ("not-closed", npy(dict_text()[:-1], DATA), 1, "malformed"),
    ("after-dict", npy(dict_text() + " import os", DATA), 1, "follows the dict"),
    ("nul-after-dict", npy(dict_text() + "\0", DATA), 1, "follows the dict"),
    ("no-commas", npy(dict_text().replace(",", ""), DATA), 1, "malformed"),
    ("two-commas", npy(dict_text().replace("'<f4',", "'<f4',,"), DATA), 1, "malformed"),
    ("key-missing", npy("{'descr': '<f4', 'shape': (3, 4)}", DATA), 1, "missing"),
    ("key-unknown", npy(dict_text()[:-1] + "'extra': 1}", DATA), 1, "unknown key 'extra'"),
    ("key-twice", npy(dict_text()[:-1] + "'descr': '<f8'}", DATA), 1, "twice"),
    ("key-long", npy("{'" + "k" * 9000 + "': 1}", DATA), 1, "unknown key"),
    ("key-escape", npy("{'\x1b[31m\n\x07': 1}", DATA), 1, "unknown key"),
    ("key-open", npy("{'descr", DATA), 1, "malformed"),
    ("no-colon", npy("{'descr' '<f4'}", DATA), 1, "malformed"),
    ("double-quotes", npy(dict_text().replace("'", '"'), DATA), 0, None),
    ("mixed-quotes", npy(dict_text("'<f4\""), DATA), 1, "not supported"),
    ("no-spaces", npy(dict_text().replace(" ", ""), DATA), 0, None),
    ("wide", npy(dict_text().replace(" ", " \t\n "), DATA), 0, None),
    (
        "keys-turned",
        npy("{'shape': (3, 4), 'fortran_order': False, 'descr': '<f4'}", DATA),
        0,
        None,
    ),
    ("python2-long", npy(dict_text(shape="(3L, 4L)"), DATA), 0, None),
    ("descr-number", npy(dict_text("4"), DATA), 1, "descr"),
    ("descr-empty", npy(dict_text("''"), DATA), 1, "not supported"),
    ("descr-short", npy(dict_text("'<'"), DATA), 1, "not supported"),
    ("descr-no-order", npy(dict_text("'f4'"), DATA), 1, "not supported"),
    ("descr-bar-f4", npy(dict_text("'|f4'"), DATA), 1, "not supported"),
    ("descr-native", npy(dict_text("'=f4'"), DATA), 0, None),
    ("descr-object", npy(dict_text("'|O'"), DATA), 1, "'|O' is not supported"),
    ("descr-string", npy(dict_text("'<U4'"), DATA), 1, "not supported"),
    ("descr-complex", npy(dict_text("'<c8'"), DATA), 1, "not supported"),
    ("descr-f16", npy(dict_text("'<f16'"), DATA), 1, "not supported"),
    ("descr-f0", npy(dict_text("'<f0'"), DATA), 1, "not supported"),
    ("descr-huge", npy(dict_text("'<f%s'" % HUGE), DATA), 1, "not supported"),
    ("descr-percent", npy(dict_text("'%s%n%d'"), DATA), 1, "not supported"),
    ("descr-newline", npy(dict_text("'<f4\n\n\n'"), DATA), 1, "not supported"),
    ("descr-list", npy(dict_text("[('a', '<f4'), ('b', '<f4')]"), DATA), 1, "structured"),
    ("descr-tuple", npy(dict_text("('<f4', (2,))"), DATA), 1, "descr"),
    ("fortran-1", npy(dict_text(fortran="1"), DATA), 1, "fortran_order"),
    ("fortran-true", npy(dict_text(fortran="True"), DATA), 0, None),
    ("fortran-lower", npy(dict_text(fortran="true"), DATA), 1, "fortran_order"),
    ("fortran-run-on", npy(dict_text(fortran="Falsehood"), DATA), 1, "malformed"),
    ("shape-none", npy(dict_text(shape="None"), DATA), 1, "not a tuple"),
    ("shape-list", npy(dict_text(shape="[3, 4]"), DATA), 1, "not a tuple"),
    ("shape-number", npy(dict_text(shape="(12)"), DATA), 1, "not a tuple"),
    ("shape-no-comma", npy(dict_text(shape="(3 4)"), DATA), 1, "not a tuple"),
    ("shape-comma", npy(dict_text(shape="(,)"), DATA), 1, "not a number"),
    ("shape-negative", npy(dict_text(shape="(-3, -4)"), DATA), 1, "negative"),
    ("shape-minus-0", npy(dict_text(shape="(-0, 4)"), DATA), 1, "negative"),
    ("shape-float", npy(dict_text(shape="(3.0, 4)"), DATA), 1, "not a tuple"),
    ("shape-hex", npy(dict_text(shape="(0xc,)"), DATA), 1, "not a tuple"),
    ("shape-exponent", npy(dict_text(shape="(1e1,)"), DATA), 1, "not a tuple"),
    ("shape-zeros", npy(dict_text(shape="(012,)"), DATA), 1, "not a number"),
    ("shape-space", npy(dict_text(shape="( 3 , 4 , )"), DATA), 0, None),
    ("shape-open", npy(dict_text(shape="(3, 4"), DATA), 1, "malformed"),
    ("shape-too-small", npy(dict_text(shape="(3, 3)"), DATA), 1, "follow the array"),
    ("shape-too-large", npy(dict_text(shape="(3, 5)"), DATA), 1, "truncated"),
    ("shape-scalar", npy(dict_text(shape="()"), DATA[:4]), 0, None),
    ("shape-scalar-more", npy(dict_text(shape="()"), DATA), 1, "follow the array"),
    ("shape-empty", npy(dict_text(shape="(0,)")), 0, None),
    ("shape-empty-more", npy(dict_text(shape="(0,)"), DATA), 1, "follow the array"),
    ("shape-8-axes", npy(dict_text(shape="(3, 4, 1, 1, 1, 1, 1, 1)"), DATA), 0, None),
    ("shape-9-axes", npy(dict_text(shape="(3, 4, 1, 1, 1, 1, 1, 1, 1)"), DATA), 1, "8 axes"),
    ("shape-10000-axes", npy(dict_text(shape="(" + "1," * 10000 + ")"), DATA), 1, "8 axes"),
    ("shape-2^63", npy(dict_text(shape="(%d,)" % 2**63), DATA), 1, "too large"),
    ("shape-2^63-1", npy(dict_text(shape="(%d,)" % (2**63 - 1)), DATA), 1, "too large"),
    ("shape-2^64", npy(dict_text(shape="(%d,)" % 2**64), DATA), 1, "too large"),
    ("shape-2^64+12", npy(dict_text(shape="(%d,)" % (2**64 + 12)), DATA), 1, "too large"),
    ("shape-long", npy(dict_text(shape="(%s,)" % ("9" * 60000)), DATA), 1, "too large"),
    (
        "shape-product-wraps",
        npy(dict_text(shape="(%d, %d)" % (2**32, 2**32)), DATA),
        1,
        "too large",
    ),
    ("shape-product-12", npy(dict_text(shape="(%d, 12)" % (2**62)), DATA), 1, "too large"),
    ("shape-bytes-wrap", npy(dict_text(shape="(%d, 2)" % (2**61)), DATA), 1, "too large"),
    ("shape-0-huge", npy(dict_text(shape="(0, %d, %d)" % (2**40, 2**40))), 1, "too large"),
    ("shape-huge-0", npy(dict_text(shape="(%d, %d, 0)" % (2**40, 2**40))), 1, "too large"),
    ("shape-widened-wraps", npy(dict_text("'<i2'", shape="(%d,)" % 2**61), DATA), 1, "too large"),
    ("shape-1TB", npy(dict_text(shape="(%d,)" % 2**38), DATA), 1, "truncated"),
    ("shape-4EB", npy(dict_text("'|u1'", shape="(%d,)" % 2**62), DATA), 1, "truncated"),
    ("shape-1TB-more", npy(dict_text(shape="(%d,)" % 2**38), bytes(300000)), 1, "truncated"),
    ("trailing-1", GOOD + b"\0", 1, "follow the array"),
    ("two-arrays", GOOD + GOOD, 1, "follow the array"),
    ("signs", npy(dict_text(shape="(+3, 4)"), DATA), 1, "not a number"),
    ("underscore", npy(dict_text(shape="(1_2,)"), DATA), 1, "not a tuple"),
    ("bool-bytes", npy(dict_text("'|b1'", shape="(256,)"), bytes(range(256))), 0, None),
    ("big-endian", npy(dict_text("'>f4'"), DATA), 0, None),
]

# Wrong arguments: (name, arguments, part of the message). GOOD stands for a good file, WIDE for one
# of shape (0, 2^33), NONE for one of shape (0,).
WRONG = [
    ("nothing", [], "command"),
    ("command", ["frobnicate"], "frobnicate"),
    ("command-newline", ["a\nb\x1b"], "unknown command"),
    ("no-op", ["reduce"], "operation"),
    ("op", ["reduce", "median", "GOOD"], "median"),
    ("op-percent", ["reduce", "%s%s%n", "GOOD"], "%s%s%n"),
    ("op-long", ["reduce", "x" * 20000, "GOOD"], "unknown operation"),
    ("no-file", ["reduce", "sum"], "1 input file"),
    ("two-files", ["reduce", "sum", "GOOD", "GOOD"], "1 input file"),
    ("info-nothing", ["info"], "1 input file"),
    ("info-option", ["info", "--axis", "0", "GOOD"], "no option --axis"),
    ("scan-mean", ["scan", "mean", "GOOD"], "scan has no mean"),
    ("gemm-prod", ["gemm-reduce", "prod", "--axis", "M", "GOOD", "GOOD"], "has no prod"),
    ("gemm-any", ["gemm-reduce", "any", "--axis", "M", "GOOD", "GOOD"], "has no any"),
    ("gemm-one-file", ["gemm-reduce", "sum", "--axis", "M", "GOOD"], "2 input files"),
    ("gemm-no-axis", ["gemm-reduce", "sum", "GOOD", "GOOD"], "--axis M|N"),
    ("gemm-axis", ["gemm-reduce", "sum", "--axis", "K", "GOOD", "GOOD"], "M or N"),
    ("gemm-shapes", ["gemm-reduce", "sum", "--axis", "M", "GOOD", "GOOD"], "do not multiply"),
    ("gemm-stdin-twice", ["gemm-reduce", "sum", "--axis", "M", "-", "-"], "standard input"),
    ("axis-word", ["reduce", "sum", "--axis", "rows", "GOOD"], "rows"),
    ("axis-empty", ["reduce", "sum", "--axis", "", "GOOD"], "--axis wants a value"),
    ("axis-comma", ["reduce", "sum", "--axis", "0,", "GOOD"], "--axis '0,'"),
    ("axis-space", ["reduce", "sum", "--axis", " 0", "GOOD"], "--axis ' 0'"),
    ("axis-2", ["reduce", "sum", "--axis", "2", "GOOD"], "has 2 axes"),
    ("axis-minus-3", ["reduce", "sum", "--axis", "-3", "GOOD"], "has 2 axes"),
    ("axis-9", ["reduce", "sum", "--axis", "99999999999999999999", "GOOD"], "--axis"),
    ("axis-twice", ["reduce", "sum", "--axis", "0,-2", "GOOD"], "twice"),
    ("axis-many", ["reduce", "sum", "--axis", "0,1,2,3,4,5,6,7,0", "GOOD"], "too many axes"),
    ("axis-last", ["reduce", "sum", "GOOD", "--axis"], "--axis wants a value"),
    ("scan-axes", ["scan", "sum", "--axis", "0,1", "GOOD"], "one axis"),
    ("scan-no-axis", ["scan", "sum", "GOOD"], "scan wants --axis"),
    ("keepdims-value", ["reduce", "sum", "--keepdims=1", "GOOD"], "takes no value"),
    ("keepdims-scan", ["scan", "sum", "--keepdims", "--axis", "0", "GOOD"], "no option --keepdims"),
    ("exclusive-reduce", ["reduce", "sum", "--exclusive", "GOOD"], "no option --exclusive"),
    ("ddof-sum", ["reduce", "sum", "--ddof", "1", "GOOD"], "--ddof"),
    ("ddof-negative", ["reduce", "var", "--ddof", "-1", "GOOD"], "--ddof '-1'"),
    ("ddof-word", ["reduce", "var", "--ddof", "one", "GOOD"], "--ddof 'one'"),
    ("threads-0", ["reduce", "sum", "--threads", "0", "GOOD"], "--threads '0'"),
    ("threads-many", ["reduce", "sum", "--threads", "1000000", "GOOD"], "--threads"),
    ("threads-word", ["reduce", "sum", "--threads", "2x", "GOOD"], "--threads '2x'"),
    ("backend", ["reduce", "sum", "--backend", "tpu", "GOOD"], "tpu"),
    ("acc", ["reduce", "sum", "--acc", "f16", "GOOD"], "f64"),
    ("piece-0", ["reduce", "sum", "--piece", "0", "GOOD"], "--piece '0'"),
    ("piece-word", ["scan", "sum", "--axis", "0", "--piece", "1M", "GOOD"], "--piece '1M'"),
    ("piece-large", ["reduce", "sum", "--piece", "9" * 30, "GOOD"], "--piece"),
    ("piece-gemm", ["gemm-reduce", "sum", "--axis", "M", "--piece", "1", "GOOD", "GOOD"], "--piece"),
    ("progress-value", ["reduce", "sum", "--progress=1", "GOOD"], "takes no value"),
    ("progress-info", ["info", "--progress", "GOOD"], "no option --progress"),
    ("dtype", ["reduce", "sum", "--dtype", "f3", "GOOD"], "f3"),
    ("dtype-int-of-float", ["reduce", "sum", "--dtype", "i4", "GOOD"], "does not fit"),
    ("dtype-int-mean", ["reduce", "mean", "--dtype", "i8", "GOOD"], "does not fit"),
    ("dtype-float-index", ["reduce", "argmax", "--dtype", "f4", "GOOD"], "does not fit"),
    ("option", ["reduce", "sum", "--frob", "GOOD"], "--frob"),
    ("option-newline", ["reduce", "sum", "--fr\nob", "GOOD"], "unknown option"),
    ("missing-file", ["reduce", "sum", "MISSING"], "cannot open"),
    ("missing-folder", ["reduce", "sum", "MISSING/x.npy"], "cannot open"),
    ("directory", ["reduce", "sum", "FOLDER"], "cannot read"),
    ("device-empty", ["info", "/dev/null"], "empty"),
    ("file-newline", ["info", "no\nsuch\nfile"], "cannot open"),
    ("endless", ["info", "/dev/zero"], "not a .npy file"),
    ("save-missing-folder", ["reduce", "sum", "GOOD", "-o", "MISSING/x.npy"], "x.npy"),
    ("save-folder", ["reduce", "sum", "GOOD", "-o", "FOLDER"], "cannot open for writing"),
    ("huge-result", ["reduce", "sum", "--axis", "0", "WIDE"], "too large"),
    ("argmax-nothing", ["reduce", "argmax", "NONE"], "no element"),
]


# ---- groups --------------------------------------------------------------------------------------


def commands(path):
    """Two ways of reading a file: by name, which can be measured, and from a pipe, which cannot."""
    with open(path, "rb") as f:
        content = f.read()
    return [("file", ["info", path], b""), ("pipe", ["info", "-"], content)]


def test_truncated(folder):
    path = os.path.join(folder, "cut.npy")
    for n in range(len(GOOD) + 1):
        with open(path, "wb") as f:
            f.write(GOOD[:n])
        for way, args, stdin in commands(path):
            text = None if n == len(GOOD) else "empty" if n == 0 else "truncated"
            check("truncated-%d-%s" % (n, way), run(args, stdin), int(n < len(GOOD)), text)


def test_flipped(folder):
    path = os.path.join(folder, "flip.npy")
    for bit in range(8 * HEADER_BYTES):
        damaged = bytearray(GOOD)
        damaged[bit // 8] ^= 1 << bit % 8
        with open(path, "wb") as f:
            f.write(damaged)
        # Nothing in the magic and the version may change; a space of the dict may become another.
        sure = 1 if bit < 8 * 8 else None
        check("flipped-%d" % bit, run(["reduce", "sum", path]), sure)


def test_every_byte(folder):
    """Each byte of the dict becomes each of the characters that mean something there."""
    path = os.path.join(folder, "byte.npy")
    for at in range(10, 10 + len(dict_text())):
        for new in b"{}()[]',:\"-09\0\n\xff":
            damaged = bytearray(GOOD)
            damaged[at] = new
            with open(path, "wb") as f:
                f.write(damaged)
            check("byte-%d-%02x" % (at, new), run(["info", path]))


def test_hostile(folder):
    path = os.path.join(folder, "hostile.npy")
    with open(path, "wb") as f:
        f.write(GOOD)
    small = [(resource.RLIMIT_AS, SMALL_MEMORY)]
    if fault(run(["info", path], limits=small), 0, None):
        small = []  # a sanitizer needs the address space
        skip("hostile-memory", "this build does not run in %d MiB" % (SMALL_MEMORY >> 20))
    for name, content, status, text in HOSTILE:
        with open(path, "wb") as f:
            f.write(content)
        for way, args, stdin in commands(path):
            check("hostile-%s-%s" % (name, way), run(args, stdin, small), status, text)
        check("hostile-%s-sum" % name, run(["reduce", "sum", path], limits=small), status, text)


def test_arguments(folder):
    names = {
        "GOOD": GOOD,
        "WIDE": npy(dict_text(shape="(0, %d)" % 2**33)),
        "NONE": npy(dict_text(shape="(0,)")),
    }
    for name, content in names.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content)
    os.mkdir(os.path.join(folder, "FOLDER"))
    for name, args, text in WRONG:
        for word in ("GOOD", "WIDE", "NONE", "FOLDER", "MISSING"):
            args = [os.path.join(folder, a) if a.split("/")[0] == word else a for a in args]
        check("arguments-" + name, run(args), 1, text)
    for option in ("--help", "--version"):
        check("arguments" + option, run([option]), 0, None)
        expect(
            "arguments" + option, b"gpured-npy" in run([option])[1], "it does not name the program"
        )
    good = os.path.join(folder, "GOOD")
    if not os.path.exists("/dev/full"):
        skip("arguments-stdout-full", "there is no /dev/full")
        return
    for args in (
        ["info", good],
        ["reduce", "sum", good],
        ["reduce", "sum", good, "-o", "-"],
        ["--help"],
    ):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM] + args, stdout=full, stderr=subprocess.PIPE, timeout=60)
        result = done.returncode, b"", done.stderr
        check("arguments-stdout-full-%s" % " ".join(args), result, 1, "standard output")


def test_unreadable(folder):
    """Files that may not be read or written; root, who may do everything, becomes nobody for it."""
    path = os.path.join(folder, "secret.npy")
    with open(path, "wb") as f:
        f.write(GOOD)
    os.chmod(folder, 0o777)
    user = 65534 if os.geteuid() == 0 else None
    try:
        can_run = run(["info", path], user=user)[0] == 0
    except (OSError, subprocess.SubprocessError):
        can_run = False
    if not can_run:
        skip("unreadable", "root cannot become nobody here")
        return
    os.chmod(path, 0o444)
    args = ["scan", "max", "--axis", "0", path, "-o"]
    check("unreadable-save", run(args + [path], user=user), 1, "cannot open for writing")
    os.chmod(folder, 0o555)
    check("unreadable-folder", run(args + [path + "2"], user=user), 1, "cannot create")
    os.chmod(folder, 0o700)
    if user is not None:
        check("unreadable-way", run(["info", path], user=user), 1, "cannot open")
    os.chmod(path, 0)
    os.chmod(folder, 0o777)
    check("unreadable", run(["info", path], user=user), 1, "cannot open")
    expect("unreadable", os.listdir(folder) == ["secret.npy"], "a file was left behind")


def test_saving(folder):
    """A save that fails leaves the old file as it was and nothing beside it; one that works
    replaces it. What is no regular file is written into."""
    source, target = os.path.join(folder, "in.npy"), os.path.join(folder, "keep", "out.npy")
    os.mkdir(os.path.dirname(target))
    values = bytes(20000)
    for path, content in (
        (source, npy(dict_text("'|u1'", shape="(%d,)" % len(values)), values)),
        (target, b"old"),
    ):
        with open(path, "wb") as f:
            f.write(content)
    args = ["scan", "sum", source, "-o", target]
    check("saving-no-space", run(args, limits=[(resource.RLIMIT_FSIZE, 65536)]), 1, "cannot write")
    with open(target, "rb") as f:
        expect("saving-no-space", f.read() == b"old", "the old file changed")
    expect(
        "saving-no-space",
        os.listdir(os.path.dirname(target)) == ["out.npy"],
        "a file was left behind",
    )
    check("saving", run(args), 0)
    expect(
        "saving",
        os.path.getsize(target) == 128 + 8 * len(values),
        "the new file has the wrong size",
    )
    expect("saving", os.listdir(os.path.dirname(target)) == ["out.npy"], "a file was left behind")
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    check("saving-fifo", run(["reduce", "sum", source, "-o", fifo]), 0)
    expect("saving-fifo", len(os.read(reader, 4096)) == 136, "the array did not come through")
    expect("saving-fifo", sorted(os.listdir(folder)) == ["fifo", "in.npy", "keep"], "not as before")
    os.close(reader)
    status, out, err = run(["reduce", "sum", source, "-o", "-"])
    expect(
        "saving-stdout",
        status == 0 and not err and out[:6] == b"\x93NUMPY" and len(out) == 136,
        "no .npy file on standard output",
    )


# ---- long work -----------------------------------------------------------------------------------

LONG = 1 << 25  # pieces of one pair of bytes: some seconds of work


def start_long(folder, stderr=subprocess.PIPE):
    """Starts work that takes long, in a folder of its own, and waits until its result is begun."""
    source = os.path.join(folder, "long.npy")
    keep = os.path.join(folder, "keep")
    os.makedirs(keep)
    with open(source, "wb") as f:
        f.write(npy(dict_text("'|u1'", shape="(%d, 2)" % LONG).ljust(117) + "\n"))
        f.truncate(128 + 2 * LONG)
    target = os.path.join(keep, "out.npy")
    with open(target, "wb") as f:
        f.write(b"old")
    args = [PROGRAM, "reduce", "max", "--axis", "1", "--piece", "1", source, "-o", target]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=stderr)
    until = time.time() + 60
    while len(os.listdir(keep)) < 2 and time.time() < until:
        time.sleep(0.001)
    return process, source, keep


def check_nothing_left(name, keep):
    """The old result is there as it was, and nothing else."""
    expect(name, os.listdir(keep) == ["out.npy"], "left behind: %s" % os.listdir(keep))
    with open(os.path.join(keep, "out.npy"), "rb") as f:
        expect(name, f.read() == b"old", "the old file changed")


def test_signals(folder):
    """A signal ends the program as usual, and takes the unfinished file away."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        name = "signals-%d" % number
        process, _, keep = start_long(os.path.join(folder, name))
        expect(name, len(os.listdir(keep)) == 2, "no unfinished file was seen")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        expect(name, process.returncode == -number, "status %s" % process.returncode)
        expect(name, not out and not err, "it said %r" % (out + err))
        check_nothing_left(name, keep)


def test_waiting(folder):
    """A pipe without a reader can be waited for, and given up."""
    good, fifo = os.path.join(folder, "good.npy"), os.path.join(folder, "fifo")
    with open(good, "wb") as f:
        f.write(GOOD)
    os.mkfifo(fifo)
    process = subprocess.Popen([PROGRAM, "reduce", "sum", good, "-o", fifo])
    time.sleep(0.5)
    expect("waiting", process.poll() is None, "it did not wait")
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    expect("waiting", process.returncode == -signal.SIGINT, "status %s" % process.returncode)


def test_shrinking(folder):
    """The file becomes shorter while it is in use."""
    process, source, keep = start_long(os.path.join(folder, "shrink"))
    os.truncate(source, 4096)
    out, err = process.communicate(timeout=60)
    check("shrinking", (process.returncode, out, err), 1, "became shorter")
    check_nothing_left("shrinking", keep)


def test_progress(folder):
    """Progress is told on a terminal, and elsewhere only if asked for; short work tells none."""
    good = os.path.join(folder, "good.npy")
    with open(good, "wb") as f:
        f.write(GOOD)
    master, terminal = pty.openpty()
    process, _, keep = start_long(os.path.join(folder, "tty"), terminal)
    said, until = b"", time.time() + 60
    while not re.search(rb"reduce max: [0-9]+ %, [0-9]+ s", said) and time.time() < until:
        if select.select([master], [], [], 1)[0]:
            said += os.read(master, 4096)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    expect(
        "progress-terminal", said.startswith(b"\rgpured-npy: reduce max: "), "it said %r" % said
    )
    check_nothing_left("progress-terminal", keep)
    while select.select([master], [], [], 0)[0]:
        os.read(master, 4096)
    status = subprocess.call(
        [PROGRAM, "reduce", "sum", good], stdout=subprocess.DEVNULL, stderr=terminal
    )
    quiet = not select.select([master], [], [], 0.2)[0]
    expect("progress-short", status == 0 and quiet, "short work said something")
    os.close(master)
    os.close(terminal)
    for args in (["reduce", "sum"], ["scan", "max", "--axis", "0"]):
        status, _, err = run(args + ["--progress", good])
        want = "gpured-npy: %s %s: 100 %%, 0 s\n" % (args[0], args[1])
        expect("progress-asked", status == 0 and err == want.encode(), "stderr %r" % err)


def main():
    global PROGRAM, ONLY
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: npy_damage.py PATH-TO-GPURED-NPY [NAME-PART]")
    PROGRAM = os.path.abspath(sys.argv[1])
    ONLY = sys.argv[2] if len(sys.argv) == 3 else ""
    if not os.access(PROGRAM, os.X_OK):
        sys.exit("npy_damage.py: %s cannot be run" % PROGRAM)
    for number in (signal.SIGINT, signal.SIGHUP):
        # nohup and background jobs ignore them, and so would the program, which is right of it
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for name, group in sorted(globals().items()):
        if name.startswith("test_") and ONLY in name:
            with tempfile.TemporaryDirectory() as folder:
                group(folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return 1 if COUNT["failed"] or not COUNT["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs examples/dlpack_ctypes.py, and tries its parts on arrays of every type and layout.

    dlpack_check.py PATH-TO-THE-EXAMPLE PATH-TO-LIBGPURED.SO

What NumPy cannot lend (old capsules, other devices, types) comes from capsules made here. The last
line counts: N passed, N failed, N skipped.
"""

import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile

import numpy as np

COUNT = {"passed": 0, "failed": 0, "skipped": 0}


def expect(name, right, what=""):
    COUNT["passed" if right else "failed"] += 1
    if not right:
        print("FAIL %s %s" % (name, what))


def skip(name, why):
    COUNT["skipped"] += 1
    print("SKIP %s: %s" % (name, why))


def refuses(name, text, call, *arguments, **named):
    """The call must raise ValueError and say TEXT."""
    try:
        call(*arguments, **named)
    except ValueError as error:
        expect(name, text in str(error), "says: %s" % error)
    else:
        expect(name, False, "was accepted")


# ---- the program ---------------------------------------------------------------------------------


def run(example, *arguments, path=None):
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = path
    return subprocess.run(
        [sys.executable, "-B", example] + list(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        universal_newlines=True,
        timeout=300,
    )


def check_program(example, library):
    done = run(example, library)
    lines = [line for line in done.stdout.splitlines() if line.startswith("numpy ")]
    expect("the example: status", done.returncode == 0, done.stdout + done.stderr)
    expect("the example: stderr", done.stderr == "", done.stderr)
    expect("the example: six results", len(lines) == 6, done.stdout)
    expect("the example: torch or a word on it", "torch" in done.stdout, done.stdout)
    with tempfile.TemporaryDirectory() as empty:
        with open(os.path.join(empty, "numpy.py"), "w") as file:
            file.write("raise ImportError('not here')\n")
        for name, text, done in (
            ("no library", "none.so", run(example, os.path.join(empty, "none.so"))),
            ("not a library", "numpy.py", run(example, os.path.join(empty, "numpy.py"))),
            ("no NumPy", "NumPy is not installed", run(example, library, path=empty)),
            ("two libraries", "usage", run(example, library, library)),
        ):
            expect("%s: status" % name, done.returncode == 1, done.returncode)
            expect("%s: one line" % name, done.stderr.count("\n") == 1, done.stderr)
            expect("%s: says so" % name, text in done.stderr, done.stderr)
            expect("%s: stdout" % name, done.stdout == "", done.stdout)


# ---- NumPy's arrays ------------------------------------------------------------------------------


def layouts(x):
    """Views of a 6 x 4 x 5 array: name, view."""
    yield "compact", x
    yield "transposed", x.transpose(2, 0, 1)
    yield "reversed", x[::-1, :, ::-2]
    yield "a slice", x[1:5:3, 2:, 1]
    yield "one element", x[2, 3, 4, ...]
    yield "eight axes", x.reshape(1, 2, 3, 1, 4, 1, 5, 1)
    yield "no elements", x[:, 4:, :]


def check_arrays(dlpack, library):
    names = "float32 float64 float16 int8 uint8 int32 uint32 int64 uint64"
    for dtype in names.split():
        x = (np.arange(120) * 37 % 101).astype(dtype).reshape(6, 4, 5)
        kind = np.float64 if dtype.startswith("float") else np.int64
        for name, view in layouts(x):
            out = np.full((), -1, kind)
            where = dlpack.reduce(library, dlpack.SUM, view, range(view.ndim), out)
            want = view.astype(kind).sum()
            expect("%s, %s: sum" % (dtype, name), out == want, "%s, not %s" % (out, want))
            pointer = view.__array_interface__["data"][0]
            expect("%s, %s: copied" % (dtype, name), where in (pointer, None) or not view.size)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    spaced = np.full(8, -1, np.float32)
    dlpack.reduce(library, dlpack.SUM, x, (1,), spaced[::-2])
    expect("an output with strides", list(spaced) == [-1, 123, -1, 87, -1, 51, -1, 15], spaced)


def check_refusals(dlpack, library):
    x, out = np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
    for dtype in (np.int16, np.complex64):
        refuses("a type gpured lacks", "type", dlpack.borrow, np.zeros(3, dtype))
    refuses("nine axes", "axes", dlpack.borrow, np.zeros((1,) * 9, np.float32))
    refuses("a shape that does not fit", "shapes", dlpack.reduce, library, 1, x, (0,), out)
    refuses("an output in the input", "overlaps", dlpack.reduce, library, 1, x, (1,), x[:, 0])
    locked = x.view()
    locked.flags.writeable = False
    try:
        dlpack.borrow(locked)
    except BufferError:
        skip("read-only arrays", "this NumPy does not lend them")
    else:
        refuses("a read-only output", "read-only", dlpack.borrow, locked, writable=True)


def check_ownership(dlpack):
    x = np.zeros(100)
    before = sys.getrefcount(x)
    tensor = dlpack.borrow(x)
    expect("a borrowed array is kept", sys.getrefcount(x) > before)
    del tensor
    expect("and given back", sys.getrefcount(x) == before, sys.getrefcount(x) - before)


# ---- capsules made here --------------------------------------------------------------------------


class Lender:
    """Lends 12 floats, 0 to 11, as 3 x 4, with fields of the DLTensor replaced."""

    def __init__(self, dlpack, name=b"dltensor", major=1, **fields):
        self.values = (ctypes.c_float * 12)(*range(12))
        self.shape = (ctypes.c_int64 * 2)(3, 4)
        self.name = name
        self.memory = dlpack.Versioned(major=major)
        self.lent = self.memory.tensor
        self.lent.data = ctypes.addressof(self.values)
        self.lent.device_type, self.lent.ndim = dlpack.HOST, 2
        self.lent.code, self.lent.bits, self.lent.lanes = dlpack.FLOAT, 32, 1
        self.lent.shape = self.shape
        for field, value in fields.items():
            setattr(self.lent, field, value)

    def __dlpack__(self, stream=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        new.restype = ctypes.py_object
        start = self.lent if self.name == b"dltensor" else self.memory
        return new(ctypes.addressof(start), self.name, None)


def check_capsules(dlpack, library):
    for name in (b"dltensor", b"dltensor_versioned"):
        out = np.zeros(3, np.float32)
        dlpack.reduce(library, dlpack.SUM, Lender(dlpack, name), (1,), out)
        expect("%s, no strides: sum" % name, list(out) == [6, 22, 38], out)
    lender = Lender(dlpack, byte_offset=16, ndim=0)
    dlpack.reduce(library, dlpack.SUM, lender, (), out[:1])
    expect("a byte offset", out[0] == 4, out[0])
    tensor = dlpack.borrow(Lender(dlpack, code=dlpack.BFLOAT, bits=16))
    expect("bfloat16", tensor.dtype == dlpack.BF16, tensor.dtype)
    tensor = dlpack.borrow(Lender(dlpack, code=dlpack.BOOL, bits=8))
    expect("booleans", tensor.dtype == dlpack.U8, tensor.dtype)
    for device, want in ((1, (1, 0)), (2, (2, 7)), (3, (1, 0)), (13, (2, 7))):
        tensor = dlpack.borrow(Lender(dlpack, device_type=device, device_id=7))
        got = (tensor.device, tensor.device_id)
        expect("device %d" % device, got == want, got)
    refuses("another device", "device", dlpack.borrow, Lender(dlpack, device_type=10))
    refuses("lanes", "type", dlpack.borrow, Lender(dlpack, lanes=4))
    lender = Lender(dlpack, b"dltensor_versioned", major=2)
    refuses("another DLPack", "DLPack 2", dlpack.borrow, lender)


def main():
    example, library = sys.argv[1:3]
    if "-fsanitize" in os.environ.get("CFLAGS", ""):
        skip("DLPack from Python", "Python does not load a sanitized library")
    else:
        spec = importlib.util.spec_from_file_location("dlpack_ctypes", example)
        dlpack = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(dlpack)
        check_program(example, library)
        loaded = dlpack.load(library)
        check_arrays(dlpack, loaded)
        check_refusals(dlpack, loaded)
        check_ownership(dlpack)
        check_capsules(dlpack, loaded)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return COUNT["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())

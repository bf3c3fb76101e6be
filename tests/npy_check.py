#!/usr/bin/env python3
"""Compares gpured-npy with NumPy on real .npy files.

    npy_check.py PATH-TO-GPURED-NPY [NAME-PART]

Integers and the operations that do not depend on an order must agree exactly, floats within the
bounds of docs/ORDER.md section 9, measured against references in extended precision. Shapes and
dtypes of results must be NumPy's. Prints SKIP and ends well where NumPy is missing. The last line
counts: N passed, N failed, N skipped.
"""

import io
import itertools
import math
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    np = None

PROGRAM = ""
COUNT = {"passed": 0, "failed": 0, "skipped": 0}
FLOATS = ["f2", "f4", "f8"]
SIGNED = ["i1", "i2", "i4", "i8"]
UNSIGNED = ["u1", "u2", "u4", "u8"]
KINDS = FLOATS + SIGNED + UNSIGNED + ["b1"]
SHAPES = [
    (),
    (1,),
    (7,),
    (257,),
    (1030,),
    (0,),
    (5, 6),
    (300, 3),
    (17, 0),
    (2, 3, 4),
    (3, 1, 1025),
    (2, 3, 4, 5),
]
REDUCE_OPS = [
    "sum",
    "prod",
    "min",
    "max",
    "mean",
    "sumsq",
    "norm1",
    "norm2",
    "absmax",
    "argmin",
    "argmax",
    "logsumexp",
    "var",
    "std",
    "any",
    "all",
    "count_nonzero",
]
SCAN_OPS = ["sum", "prod", "min", "max", "logsumexp"]
GEMM_OPS = [
    "sum",
    "mean",
    "min",
    "max",
    "sumsq",
    "norm1",
    "norm2",
    "absmax",
    "argmin",
    "argmax",
    "logsumexp",
]
REAL_OPS = ["mean", "norm2", "logsumexp", "var", "std"]


# ---- running and judging -------------------------------------------------------------------------


def verdict(name, wrong):
    """Counts one case; wrong is what is wrong with it, or None."""
    COUNT["failed" if wrong else "passed"] += 1
    if wrong:
        print("FAIL %s: %s" % (name, wrong))


def skip(name, why):
    COUNT["skipped"] += 1
    print("SKIP %s: %s" % (name, why))


def run(args, stdin=b""):
    done = subprocess.run(
        [PROGRAM] + args, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def compute(folder, args, arrays):
    """The result of a command on arrays, or a text that says why there is none."""
    paths = []
    for i, a in enumerate(arrays):
        paths.append(os.path.join(folder, "in%d.npy" % i))
        np.save(paths[-1], a)
    out = os.path.join(folder, "out.npy")
    if os.path.exists(out):
        os.remove(out)
    status, text, err = run(args + paths + ["-o", out])
    if status != 0 or text or err:
        return "exit status %d, stderr %r" % (status, err)
    return np.load(out)


def compare(got, want, bound, dtype):
    """What is wrong with `got`, or None. bound: 0, or the allowed absolute errors of the elements
    before the result is stored."""
    if isinstance(got, str):
        return got
    if got.dtype != np.dtype(dtype):
        return "dtype %s, not %s" % (got.dtype, np.dtype(dtype))
    if got.shape != np.shape(want):
        return "shape %s, not %s" % (got.shape, np.shape(want))
    if np.isscalar(bound) and bound == 0:
        same = np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
        return None if same else "got %s, not %s" % (got.ravel()[:8], np.ravel(want)[:8])
    with np.errstate(all="ignore"):
        stored = np.asarray(want).astype(dtype)
        allowed = bound + np.abs(np.spacing(stored)).astype("g") / 2
        error = np.abs(got.astype("g") - want)
        good = (error <= allowed) | (np.isnan(got) & np.isnan(want)) | (got == stored)
    if np.all(good):
        return None
    at = np.unravel_index(np.argmin(good), good.shape)
    return "at %s: got %s, want %s, off by %s, allowed %s" % (
        at,
        got[at],
        want[at],
        error[at],
        allowed[at],
    )


# ---- references and bounds (docs/ORDER.md section 9) ---------------------------------------------


def depth(n):
    """D(n)"""
    return 0 if n == 0 else min(n - 1, 19 + math.ceil(math.log2(math.ceil(n / 256))))


def doublings(n, block):
    return math.ceil(math.log2(max(1, math.ceil(n / block))))


def unit(kind, op, acc=None):
    """u of the accumulator."""
    return 2.0**-24 if kind in ("f2", "f4") and acc is None else 2.0**-53


def as_lines(x, axes):
    """x with one row for each result; the rows are the reduced elements in row-major order."""
    kept = [a for a in range(x.ndim) if a not in axes]
    n = math.prod(x.shape[a] for a in axes)
    rows = math.prod(x.shape[a] for a in kept)
    moved = np.transpose(x, kept + sorted(axes)).reshape(rows, n)
    return np.ascontiguousarray(moved), tuple(x.shape[a] for a in kept)


def widen(lines):
    """To extended precision; integers by way of float64, as the specification says."""
    return (lines.astype("f8") if lines.dtype.kind != "f" else lines).astype("g")


def real_reference(op, lines, u, ddof):
    """Result and bound of a float operation on the rows of `lines`."""
    x = widen(lines)
    n = x.shape[1]
    total, absolute, squares = x.sum(1), np.abs(x).sum(1), (x * x).sum(1)
    blocks = doublings(n, 1024)
    if op == "sum":
        return total, depth(n) * u * absolute
    if op == "norm1":
        return absolute, depth(n) * u * absolute
    if op == "sumsq":
        return squares, (depth(n) + 1) * u * squares
    if op == "norm2":
        return np.sqrt(squares), ((depth(n) + 1) / 2 + 1) * u * np.sqrt(squares)
    if op == "prod":
        return x.prod(1), max(n - 1, 0) * u * np.abs(x.prod(1))
    if op == "mean":
        return total / n, (depth(n) + 2) * u * absolute / n
    if op == "logsumexp":
        top = x.max(1, initial=-np.inf)
        y = np.where(
            np.isinf(top),
            top,
            top + np.log(np.exp(x - np.where(np.isinf(top), 0, top)[:, None]).sum(1)),
        )
        return y, u * (np.abs(y) + 3 * math.log(max(n, 1)) + 32 + 5 * blocks)
    plain = ((x - (total / n)[:, None]) ** 2).sum(1) / n
    peak = np.abs(x).max(1, initial=0)
    bound = 2 * u * (32 + 6 * blocks) * (plain + 2 * np.sqrt(plain) * peak + 40 * u * peak * peak)
    scale = np.asarray(n, "g") / max(n - ddof, 0)
    var, bound = plain * scale, bound * scale + (u * plain * scale if ddof else 0)
    if op == "var":
        return var, bound
    spread = np.where(
        bound < var, bound / (2 * np.sqrt(np.maximum(var - bound, 0))), np.sqrt(var + bound)
    )
    return np.sqrt(var), spread + u * np.sqrt(var)


def integers(lines):
    """Integers as 64-bit ones; the unsigned results of the specification wrap as these do."""
    return lines.astype("u8" if lines.dtype.kind in "u" else "i8")


def exact_reference(op, lines):
    """Result of an operation that has only one answer."""
    n = lines.shape[1]
    floats = lines.dtype.kind == "f"
    if op in ("any", "all"):
        return getattr(lines, op)(1)
    if op == "count_nonzero":
        return np.count_nonzero(lines, axis=1)
    if op in ("argmin", "argmax"):
        return getattr(lines, op)(1)
    if op in ("min", "max") and n == 0:
        if lines.dtype.kind == "b":
            return np.full(lines.shape[0], op == "min")
        limits = (
            (np.inf, -np.inf) if floats else (np.iinfo(lines.dtype).max, np.iinfo(lines.dtype).min)
        )
        return np.full(lines.shape[0], limits[op == "max"]).astype(lines.dtype)
    if op in ("min", "max"):
        return getattr(lines, op)(1)
    if op == "absmax" and floats:
        return np.abs(lines).max(1, initial=0)
    if op in ("sum", "prod"):
        return getattr(integers(lines), op)(1)
    wide = integers(lines).view("u8")
    if op == "sumsq":
        return (wide * wide).sum(1)
    absolute = np.where(integers(lines) < 0, -wide, wide) if lines.dtype.kind == "i" else wide
    return absolute.sum(1) if op == "norm1" else absolute.max(1, initial=0)


def result_dtype(op, kind, gemm=False):
    """What gpured-npy promises; where NumPy has the operation, test_natural_dtypes compares."""
    if op in ("argmin", "argmax", "count_nonzero"):
        return "i8"
    if op in ("any", "all"):
        return "?"
    if kind in FLOATS:
        return kind
    if op in REAL_OPS:
        return "f8"
    if op in ("min", "max") and not gemm:
        return kind
    if op == "absmax" and not gemm:
        return "u" + (kind[1] if kind != "b1" else "1")
    return "u8" if op in ("sumsq", "norm1", "absmax") or kind in UNSIGNED else "i8"


def reduce_reference(op, x, axes, ddof=0, acc=None):
    """Result, bound and dtype of a reduction."""
    lines, shape = as_lines(x, axes)
    kind = x.dtype.str[1:]
    dtype = result_dtype(op, kind)
    with np.errstate(all="ignore"):
        if op in REAL_OPS or (kind in FLOATS and op in ("sum", "prod", "sumsq", "norm1")):
            want, bound = real_reference(op, lines, unit(kind, op, acc), ddof)
            return (
                want.reshape(shape),
                np.asarray(bound + np.zeros(lines.shape[0])).reshape(shape),
                dtype,
            )
        return exact_reference(op, lines).astype(dtype).reshape(shape), 0, dtype


# ---- data ----------------------------------------------------------------------------------------


def make(rng, kind, shape, order="C", endian="<", special=False):
    """Values that exercise the type without overflowing f16."""
    if kind in FLOATS:
        x = rng.normal(0, 2, shape) * 2.0 ** rng.integers(-3, 2, shape)
        x = np.where(rng.random(shape) < 0.1, 0, x)
        if special and x.size > 3:
            at = rng.integers(0, x.size, 3)
            x.ravel()[at] = [np.nan, np.inf, -np.inf]
    elif kind == "b1":
        x = rng.random(shape) < 0.5
    else:
        info = np.iinfo(kind)
        x = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
        x = np.where(rng.random(shape) < 0.1, 0, x)
    code = kind if kind[1] == "1" else endian + kind
    return np.array(x, dtype=code, order=order)


def some_axes(rng, ndim):
    """A random set of axes, and how it is written for --axis (None: left out, which means all)."""
    axes = [a for a in range(ndim) if rng.random() < 0.6]
    if not axes or rng.random() < 0.2:
        return list(range(ndim)), None
    written = [str(a - ndim if rng.random() < 0.5 else a) for a in axes]
    rng.shuffle(written)
    return axes, ",".join(written)


# ---- groups --------------------------------------------------------------------------------------


def test_reduce(folder, rng):
    for kind, shape, op in itertools.product(KINDS, SHAPES, REDUCE_OPS):
        order, endian = rng.choice(["C", "F"]), rng.choice(["<", ">"])
        x = make(rng, kind, shape, order, endian)
        axes, text = some_axes(rng, x.ndim)
        name = "reduce %s %s%s %s %s axis %s" % (op, endian, kind, order, shape, text)
        args = ["reduce", op] + ([] if text is None else ["--axis", text])
        empty_arg = op in ("argmin", "argmax") and math.prod(shape[a] for a in axes) == 0
        if (
            empty_arg
            and x.size == 0
            and math.prod(s for a, s in enumerate(shape) if a not in axes) > 0
        ):
            got = compute(folder, args, [x])
            verdict(
                name, None if isinstance(got, str) and "status 1" in got else "it was not refused"
            )
        elif not empty_arg:
            verdict(name, compare(compute(folder, args, [x]), *reduce_reference(op, x, axes)))


def test_layouts(folder, rng):
    """Every type in both byte orders and both memory orders, in every version of the format."""
    for kind, endian, order, version in itertools.product(KINDS, "<>", "CF", (1, 2, 3)):
        x = make(rng, kind, (4, 5, 6), order, endian)
        file = io.BytesIO()
        np.lib.format.write_array(file, x, version=(version, 0))
        status, out, err = run(["reduce", "max", "--axis", "1", "-o", "-", "-"], file.getvalue())
        name = "layouts %s%s %s %d.0" % (endian, kind, order, version)
        got = np.load(io.BytesIO(out)) if status == 0 else repr(err)
        verdict(name, compare(got, x.max(1), 0, kind))


def test_pieces(folder, rng):
    """The size of a piece, which is how files larger than memory go through, changes no bit."""
    shapes = [(), (5,), (0,), (7, 9), (1, 3, 4, 5), (6, 1, 5), (2, 3, 4, 5), (3, 0, 2)]
    for kind, shape, order in itertools.product(KINDS, shapes, "CF"):
        x = make(rng, kind, shape, order, rng.choice(["<", ">"]))
        axes, text = some_axes(rng, x.ndim)
        commands = [["reduce", rng.choice(["sum", "min", "var", "count"]), "--keepdims"]]
        commands.append(["reduce", rng.choice(["prod", "max", "mean", "any"])])
        for c in commands:
            c += [] if text is None else ["--axis", text]
        for axis in range(x.ndim):
            scan = ["scan", rng.choice(["sum", "max"]), "--axis", str(axis)]
            commands.append(scan + ["--reverse"] * int(rng.integers(2)))
        for args in commands:
            whole = compute(folder, args, [x])
            for piece in ("1", str(int(rng.integers(2, 200)))):
                cut = compute(folder, args + ["--piece", piece], [x])
                wrong = None
                if isinstance(whole, str) or isinstance(cut, str):
                    wrong = "%s and %s" % (whole, cut)
                elif whole.dtype != cut.dtype or whole.shape != cut.shape:
                    wrong = "%s %s is not %s %s" % (cut.dtype, cut.shape, whole.dtype, whole.shape)
                elif whole.tobytes() != cut.tobytes():
                    wrong = "got %s, not %s" % (cut, whole)
                name = "pieces %s %s %s %s, %s bytes" % (" ".join(args), kind, shape, order, piece)
                verdict(name, wrong)


def test_misaligned(folder, rng):
    """Data that lies at any offset in the file."""
    x = make(rng, "f8", (40, 3))
    path = os.path.join(folder, "in.npy")
    for spaces in range(17):
        header = "{'descr':'<f8','fortran_order':False,'shape':(40,3)}" + " " * spaces
        with open(path, "wb") as f:
            f.write(b"\x93NUMPY\x01\0" + bytes([len(header), 0]) + header.encode() + x.tobytes())
        for piece in ("10", "100000"):
            status, out, err = run(
                ["reduce", "max", "--axis", "1", "--piece", piece, path, "-o", "-"]
            )
            got = np.load(io.BytesIO(out)) if status == 0 else repr(err)
            verdict("misaligned %d, %s" % (spaces, piece), compare(got, x.max(1), 0, "f8"))


def test_truth_bytes(folder, rng):
    """A truth value is what is not zero, also where a byte of the file is not 1."""
    file = io.BytesIO()
    np.save(file, np.arange(256).astype("u1"))
    content = file.getvalue().replace(b"|u1", b"|b1")
    for op, want in (
        ("sum", b"255\n"),
        ("max", b"True\n"),
        ("argmax", b"1\n"),
        ("all", b"False\n"),
    ):
        status, out, err = run(["reduce", op, "-"], content)
        verdict("truth_bytes " + op, None if (out, err) == (want, b"") else "%r %r" % (out, err))


def test_special(folder, rng):
    """NaN and infinities: the same results as NumPy's, whatever the order of adding."""
    for kind, op in itertools.product(FLOATS, REDUCE_OPS):
        for shape in ((9,), (40, 7), (3, 600)):
            x = make(rng, kind, shape, special=True)
            want = reduce_reference(op, x, [len(shape) - 1])
            verdict(
                "special %s %s %s" % (op, kind, shape),
                compare(compute(folder, ["reduce", op, "--axis", "-1"], [x]), *want),
            )


def test_options(folder, rng):
    x = make(rng, "f4", (6, 500, 3))
    for op in REDUCE_OPS:
        want, bound, dtype = reduce_reference(op, x, [1])
        want, bound = np.expand_dims(want, 1), (
            bound if np.isscalar(bound) else np.expand_dims(bound, 1)
        )
        verdict(
            "options keepdims " + op,
            compare(
                compute(folder, ["reduce", op, "--axis", "1", "--keepdims"], [x]),
                want,
                bound,
                dtype,
            ),
        )
        one = compute(folder, ["reduce", op, "--threads", "1", "--backend=cpu"], [x])
        for threads in "237":
            many = compute(folder, ["reduce", op, "--threads", threads], [x])
            same = (
                not isinstance(one, str)
                and not isinstance(many, str)
                and one.tobytes() == many.tobytes()
            )
            verdict(
                "options threads %s %s" % (threads, op), None if same else "%s and %s" % (one, many)
            )
    for op in ("sum", "prod", "mean", "sumsq", "norm1", "norm2", "var", "std", "logsumexp"):
        for kind in ("f2", "f4"):
            y = make(rng, kind, (3, 2000))
            verdict(
                "options acc %s %s" % (op, kind),
                compare(
                    compute(folder, ["reduce", op, "--axis", "1", "--acc", "f64"], [y]),
                    *reduce_reference(op, y, [1], acc=1)
                ),
            )
    for op, ddof in itertools.product(("var", "std"), (0, 1, 2, 499, 500, 600)):
        verdict(
            "options ddof %s %d" % (op, ddof),
            compare(
                compute(folder, ["reduce", op, "--axis", "1", "--ddof", str(ddof)], [x]),
                *reduce_reference(op, x, [1], ddof)
            ),
        )


def test_dtypes(folder, rng):
    """--dtype: floats are rounded once, integers keep their low bits."""
    for kind, to in itertools.product(FLOATS, FLOATS):
        x = make(rng, kind, (4, 100))
        for op in ("sum", "mean", "max"):
            want, bound, _ = reduce_reference(op, x, [1])
            if op == "max":
                want = want.astype(to)
            verdict(
                "dtypes %s %s to %s" % (op, kind, to),
                compare(
                    compute(folder, ["reduce", op, "--axis", "1", "--dtype", to], [x]),
                    want,
                    bound,
                    to,
                ),
            )
    for kind, to in itertools.product(SIGNED + UNSIGNED, SIGNED + UNSIGNED):
        x = make(rng, kind, (4, 100))
        want = integers(x).sum(1).astype(to)
        verdict(
            "dtypes sum %s to %s" % (kind, to),
            compare(
                compute(folder, ["reduce", "sum", "--axis", "1", "--dtype", to], [x]), want, 0, to
            ),
        )


def test_natural_dtypes(folder, rng):
    """The types of results that this program promises are NumPy's own."""
    for kind, op in itertools.product(
        KINDS, ["sum", "prod", "min", "max", "mean", "var", "std", "argmin", "argmax", "any", "all"]
    ):
        want = getattr(np, op)(make(rng, kind, (3,))).dtype
        verdict(
            "natural_dtypes %s %s" % (op, kind),
            None if np.dtype(result_dtype(op, kind)) == want else "NumPy has %s" % want,
        )


def scan_reference(op, x, axis, exclusive, reverse):
    kind = x.dtype.str[1:]
    dtype = result_dtype(op, kind)
    real = op == "logsumexp" or (kind in FLOATS and op in ("sum", "prod"))
    line = np.moveaxis(x, axis, -1)
    line = line[..., ::-1] if reverse else line
    n, u = line.shape[-1], unit(kind, op)
    line = widen(line) if real else line.astype(dtype)
    run_of = {
        "sum": np.add,
        "prod": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "logsumexp": np.logaddexp,
    }[op]
    y = run_of.accumulate(line, axis=-1, dtype=line.dtype) if n else line
    levels, i = max(1, math.ceil(math.log(max(n, 1), 16) - 1e-9)), np.arange(n)
    if not real:
        bound = 0
    elif op == "sum":
        bound = (5 * levels * u + n * 2.0**-63) * np.add.accumulate(np.abs(line), axis=-1)
    elif op == "prod":
        bound = (n * u + n * 2.0**-63) * np.abs(y)
    else:
        bound = u * (np.abs(y) + 3 * np.log(i + 1) + 8 + 20 * levels) + n * 2.0**-62
    if exclusive:
        first = (
            exact_reference(op, np.zeros((1, 0), x.dtype))[0]
            if op in ("min", "max")
            else {"sum": 0, "prod": 1, "logsumexp": -np.inf}[op]
        )
        y = (
            np.concatenate([np.full(y.shape[:-1] + (1,), first, y.dtype), y[..., :-1]], -1)
            if n
            else y
        )
        bound = (
            np.concatenate([np.zeros(y.shape[:-1] + (1,)), bound[..., :-1]], -1)
            if real and n
            else bound
        )
    if reverse:
        y, bound = y[..., ::-1], bound[..., ::-1] if real else 0
    return np.moveaxis(y, -1, axis), np.moveaxis(bound, -1, axis) if real else 0, dtype


def test_scan(folder, rng):
    for kind, shape, op in itertools.product(KINDS, SHAPES[1:], SCAN_OPS):
        order, endian, special = rng.choice(["C", "F"]), rng.choice(["<", ">"]), rng.random() < 0.2
        x = make(rng, kind, shape, order, endian, special and op in ("min", "max"))
        axis, exclusive, reverse = (
            int(rng.integers(0, x.ndim)),
            rng.random() < 0.5,
            rng.random() < 0.5,
        )
        args = ["scan", op, "--axis", str(axis - x.ndim if rng.random() < 0.5 else axis)]
        args += ["--exclusive"] * exclusive + ["--reverse"] * reverse
        with np.errstate(all="ignore"):
            want = scan_reference(op, x, axis, exclusive, reverse)
        verdict(
            "%s %s%s %s %s" % (" ".join(args), endian, kind, order, shape),
            compare(compute(folder, args, [x]), *want),
        )


def gemm_reference(op, a, b, axis):
    """Result, bound and dtype for float operands; no argmin and argmax."""
    kind = a.dtype.str[1:]
    u, a, b = unit(kind, op), a.astype("g"), b.astype("g")
    v, size, k = a @ b, np.abs(a) @ np.abs(b), a.shape[-1]
    e, v = np.moveaxis(k * u * size, axis - 2, -1), np.moveaxis(v, axis - 2, -1)
    n, worst = v.shape[-1], e.max(-1)
    lines = v.reshape(-1, n)
    extra = 7 + depth(math.ceil(n / 128)) + 1
    dtype = result_dtype(op, kind, gemm=True)
    if op in ("sum", "mean"):
        bound = (depth(n) + depth(k) + 4) * u * size.sum(axis - 2)
        return v.sum(-1) / (n if op == "mean" else 1), bound / (n if op == "mean" else 1), dtype
    if op in ("min", "max"):
        return getattr(v, op)(-1), worst, dtype
    if op == "absmax":
        return np.abs(v).max(-1), worst, dtype
    if op == "norm1":
        return np.abs(v).sum(-1), e.sum(-1) + extra * u * (np.abs(v) + e).sum(-1), dtype
    if op == "logsumexp":
        y, bound = real_reference(op, lines, u, 0)
        return y.reshape(v.shape[:-1]), bound.reshape(v.shape[:-1]) + worst, dtype
    squares = (v * v).sum(-1)
    bound = (2 * np.abs(v) * e + e * e).sum(-1) + extra * u * ((np.abs(v) + e) ** 2).sum(-1)
    if op == "sumsq":
        return squares, bound, dtype
    root = np.sqrt(squares)
    spread = np.where(root > 0, bound / np.where(root > 0, root, 1), np.sqrt(bound))
    return root, spread + u * root, dtype


BATCHES = [
    ((3, 4), (4, 5)),
    ((130, 17), (17, 9)),
    ((1, 1), (1, 300)),
    ((2, 7, 8), (8, 6)),
    ((2, 7, 8), (2, 8, 6)),
    ((2, 1, 5, 3), (4, 3, 6)),
]


def test_gemm_floats(folder, rng):
    for kind, (sa, sb), op, axis in itertools.product(FLOATS, BATCHES, GEMM_OPS, (0, 1)):
        a, b = make(rng, kind, sa, rng.choice(["C", "F"])), make(
            rng, kind, sb, rng.choice(["C", "F"])
        )
        args = ["gemm-reduce", op, "--axis", "MN"[axis]]
        got, name = compute(folder, args, [a, b]), "gemm_floats %s %s %s %s %s" % (
            op,
            kind,
            sa,
            sb,
            "MN"[axis],
        )
        if op not in ("argmin", "argmax"):
            verdict(name, compare(got, *gemm_reference(op, a, b, axis)))
            continue
        best, bound, _ = gemm_reference(op[3:], a, b, axis)
        v = np.moveaxis(a.astype("g") @ b.astype("g"), axis - 2, -1)
        if isinstance(got, str) or got.shape != best.shape or got.dtype != np.dtype("i8"):
            verdict(name, "got %s" % (got,))
        else:
            there = np.take_along_axis(v, got[..., None], -1)[..., 0]
            verdict(name, None if np.all(np.abs(there - best) <= 2 * bound) else "wrong index")


def test_gemm_exact(folder, rng):
    """Small whole numbers, of which every product and sum is exact: every type has one answer."""
    for kind, (sa, sb), op, axis in itertools.product(KINDS, BATCHES, GEMM_OPS, (0, 1)):
        if op in ("norm2", "logsumexp", "mean") or (op == "sumsq" and kind == "f2"):
            continue
        low, high = (0 if kind in UNSIGNED + ["b1"] else -1, 2)
        a, b = (rng.integers(low, high, s).astype(kind) for s in (sa, sb))
        v = np.moveaxis(a.astype("i8") @ b.astype("i8"), axis - 2, -1)
        want = exact_reference(op, v.reshape(-1, v.shape[-1])).reshape(v.shape[:-1])
        dtype = result_dtype(op, kind, gemm=True)
        verdict(
            "gemm_exact %s %s %s %s %s" % (op, kind, sa, sb, "MN"[axis]),
            compare(
                compute(folder, ["gemm-reduce", op, "--axis", "MN"[axis]], [a, b]),
                want.astype(dtype),
                0,
                dtype,
            ),
        )


def test_gemm_empty(folder, rng):
    for kind, op in itertools.product(("f4", "i4"), ("sum", "max", "sumsq", "absmax")):
        for sa, sb in (((3, 0), (0, 4)), ((0, 3), (3, 4)), ((2, 0, 3), (3, 4))):
            a, b = np.zeros(sa, kind), np.zeros(sb, kind)
            lines, shape = as_lines(a @ b, [max(a.ndim, b.ndim) - 2])
            want = exact_reference(op, lines).reshape(shape)
            dtype = result_dtype(op, kind, gemm=True)
            verdict(
                "gemm_empty %s %s %s" % (op, kind, sa),
                compare(
                    compute(folder, ["gemm-reduce", op, "--axis", "M"], [a, b]),
                    want.astype(dtype),
                    0,
                    dtype,
                ),
            )


def printed(text, kind, shape):
    """The array that a printed one stands for."""
    words = re.findall(r"[^\s\[\]]+", text)
    if kind == "b1":
        return np.array([{"True": True, "False": False}[w] for w in words], "?").reshape(shape)
    with np.errstate(all="ignore"):
        if kind in FLOATS:
            return np.array([float(w) for w in words]).astype(kind).reshape(shape)
        return np.array([int(w) for w in words], dtype=kind).reshape(shape)


def numbers(text):
    """The numbers and dots of a printed array, without its brackets and spaces."""
    words = re.findall(r"[^\s\[\]]+", text)
    return [w if w == "..." else float(w) for w in words]


def test_print(folder, rng):
    """What is printed reads back to the last bit and has NumPy's brackets; large arrays are
    abbreviated."""
    for kind, shape in itertools.product(KINDS, [(), (1,), (30,), (4, 5), (2, 3, 4), (2, 0)]):
        size = math.prod(shape)
        raw = (
            rng.integers(0, 256, size * np.dtype(kind).itemsize, dtype="u1").view(kind)
            if kind != "b1"
            else rng.random(size) < 0.5
        )
        x = raw.reshape(shape)
        path = os.path.join(folder, "in.npy")
        np.save(path, x.reshape(shape + (1,)))
        status, out, err = run(["reduce", "max", "--axis", "-1", path])
        text, name = out.decode(), "print %s %s" % (kind, shape)
        if status != 0:
            verdict(name, repr(err))
        elif size == 0:
            verdict(name, None if "(2, 0)" in text else "got %r" % text)
        elif not np.array_equal(printed(text, kind, shape), x, equal_nan=kind in FLOATS):
            verdict(name, "got %s for %s" % (text, x))
        else:
            wide = max(len(line) for line in text.split("\n"))
            brackets = re.sub(r"[^\[\]]", "", text), re.sub(r"[^\[\]]", "", str(x))
            verdict(
                name,
                (
                    None
                    if brackets[0] == brackets[1] and wide <= 80
                    else "brackets or lines: %s" % text
                ),
            )
    x = np.arange(10000.0).reshape(100, 100)
    np.save(path, x[..., None])
    text = run(["reduce", "max", "--axis", "2", path])[1].decode()
    verdict("print large", None if numbers(text) == numbers(str(x)) else "got %s" % text)


def test_streams(folder, rng):
    x = make(rng, "f8", (50, 4))
    file = io.BytesIO()
    np.save(file, x)
    _, middle, _ = run(["scan", "sum", "--axis", "0", "-", "-o", "-"], file.getvalue())
    status, out, err = run(["reduce", "max", "--axis", "0", "-", "-o", "-"], middle)
    want = np.load(io.BytesIO(middle)).max(0)
    verdict(
        "streams", compare(np.load(io.BytesIO(out)) if status == 0 else repr(err), want, 0, "f8")
    )
    big = make(rng, "i2", (300, 1000))  # more than is read at first from a pipe
    file = io.BytesIO()
    np.save(file, big)
    status, out, err = run(["reduce", "sum", "--axis", "1", "-", "-o", "-"], file.getvalue())
    verdict(
        "streams big",
        compare(np.load(io.BytesIO(out)) if status == 0 else repr(err), big.sum(1), 0, "i8"),
    )
    status, out, err = run(["reduce", "sum", "--time", "-"], file.getvalue())
    verdict(
        "streams time",
        (
            None
            if status == 0 and re.fullmatch(rb"gpured-npy: sum took [0-9.]+ ms\n", err)
            else "stderr %r" % err
        ),
    )


def test_iris(folder, rng):
    """The data set of the examples, and what is known of it."""
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "data")
    iris, species = (np.load(os.path.join(data, name)) for name in ("iris.npy", "iris_species.npy"))
    verdict(
        "iris sums",
        compare(
            compute(folder, ["reduce", "sum", "--axis", "0"], [iris]),
            *reduce_reference("sum", iris, [0])
        ),
    )
    known = np.allclose(iris.astype("f8").sum(0), [876.5, 458.6, 563.7, 179.9], atol=1e-4)
    verdict(
        "iris known", None if known and iris.shape == (150, 4) else "these are not Fisher's values"
    )
    verdict(
        "iris species", None if np.array_equal(species, np.repeat([0, 1, 2], 50)) else "wrong codes"
    )


def test_cuda(folder, rng):
    """The other backend gives the same bits."""
    x = make(rng, "f4", (70, 300))
    if isinstance(compute(folder, ["reduce", "sum", "--backend", "cuda"], [x]), str):
        np.save(os.path.join(folder, "x.npy"), x)
        status, out, err = run(
            ["reduce", "sum", "--backend", "cuda", os.path.join(folder, "x.npy")]
        )
        verdict(
            "cuda refused", None if status == 1 and not out and err.count(b"\n") == 1 else repr(err)
        )
        skip("cuda", "no device, or not built in")
        return
    for op in REDUCE_OPS:
        pair = [
            compute(folder, ["reduce", op, "--axis", "1", "--backend", b], [x])
            for b in ("cpu", "cuda")
        ]
        same = not any(isinstance(p, str) for p in pair) and pair[0].tobytes() == pair[1].tobytes()
        verdict("cuda %s" % op, None if same else "%s" % (pair,))


def main():
    global PROGRAM
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: npy_check.py PATH-TO-GPURED-NPY [NAME-PART]")
    if np is None:
        print("SKIP npy_check: NumPy is not installed")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    PROGRAM = os.path.abspath(sys.argv[1])
    if not os.access(PROGRAM, os.X_OK):
        sys.exit("npy_check.py: %s cannot be run" % PROGRAM)
    for name, group in sorted(globals().items()):
        if name.startswith("test_") and (len(sys.argv) == 2 or sys.argv[2] in name):
            with tempfile.TemporaryDirectory() as folder:
                group(folder, np.random.default_rng(1936))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return 1 if COUNT["failed"] or not COUNT["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

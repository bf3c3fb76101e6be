#!/usr/bin/env python3
"""Reduces NumPy arrays, and torch tensors where torch is installed, through libgpured.so: where
they lie, without a copy.

    dlpack_ctypes.py [LIBRARY]

LIBRARY is the shared library (build/libgpured.so), by default libgpured.so as the loader finds it.

Whatever has a method __dlpack__ lends its memory in a capsule: a DLTensor with pointer, shape and
strides in elements, from which borrow() makes the gpured_tensor that gpured.h describes. The
library needs no dlpack.h for that. (In C: gpured_from_dlpack().) The structures below repeat those
of dlpack.h and gpured.h. Each line of output names a result, compares it with NumPy's, and the exit
status is 1 if one of them is wrong.
"""

import ctypes
import sys

# ---- dlpack.h ------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; the older DLManagedTensor starts with its DLTensor."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


READ_ONLY = 1
HOST, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6

# ---- gpured.h ------------------------------------------------------------------------------------

MAX_NDIM = 8
F32, F64, F16, BF16, I8, U8, I32, U32, I64, U64 = range(1, 11)
SUM, PROD, MIN, MAX, MEAN, SUMSQ, NORM1, NORM2, ABSMAX, ARGMIN, ARGMAX, LOGSUMEXP = range(1, 13)
CPU_DEVICE, CUDA_DEVICE = 1, 2

DTYPES = {
    (FLOAT, 32): F32,
    (FLOAT, 64): F64,
    (FLOAT, 16): F16,
    (BFLOAT, 16): BF16,
    (INT, 8): I8,
    (UINT, 8): U8,
    (BOOL, 8): U8,
    (INT, 32): I32,
    (UINT, 32): U32,
    (INT, 64): I64,
    (UINT, 64): U64,
}


class Tensor(ctypes.Structure):
    """gpured_tensor. The attribute owner keeps the memory that it shows."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_NDIM),
        ("strides", ctypes.c_int64 * MAX_NDIM),
    ]


def load(path):
    """The library, with the types of the functions that are called here."""
    library = ctypes.CDLL(path)
    tensor, options = ctypes.POINTER(Tensor), ctypes.c_void_p
    library.gpured_reduce.argtypes = [ctypes.c_int, tensor, ctypes.c_uint32, tensor, options]
    library.gpured_reduce.restype = ctypes.c_int
    library.gpured_status_string.argtypes = [ctypes.c_int]
    library.gpured_status_string.restype = ctypes.c_char_p
    library.gpured_cuda_available.argtypes = []
    library.gpured_cuda_available.restype = ctypes.c_int
    return library


# ---- borrowing -----------------------------------------------------------------------------------


def opened(capsule):
    """The DLTensor in a capsule and its flags. The capsule stays the owner: it keeps its name, so
    that it gives the memory back itself when it goes."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    if api.PyCapsule_IsValid(capsule, b"dltensor"):
        pointer = api.PyCapsule_GetPointer(capsule, b"dltensor")
        return DLTensor.from_address(pointer), 0
    pointer = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    managed = Versioned.from_address(pointer)
    if managed.major != 1:
        raise ValueError("DLPack %d is not known here" % managed.major)
    return managed.tensor, managed.flags


def borrow(array, writable=False):
    """A Tensor that shows the memory of anything with __dlpack__."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before versions
        capsule = array.__dlpack__()
    lent, flags = opened(capsule)
    dtype = DTYPES.get((lent.code, lent.bits))
    if dtype is None or lent.lanes != 1:
        raise ValueError("gpured does not have the type of this array")
    if not 0 <= lent.ndim <= MAX_NDIM:
        raise ValueError("gpured has up to %d axes, not %d" % (MAX_NDIM, lent.ndim))
    if lent.device_type not in (HOST, CUDA_HOST, CUDA, CUDA_MANAGED):
        raise ValueError("this array is neither on the host nor on a CUDA device")
    if writable and flags & READ_ONLY:
        raise ValueError("this array is read-only")
    tensor = Tensor(dtype=dtype, device=CPU_DEVICE, ndim=lent.ndim)
    tensor.owner = capsule
    if lent.data:
        tensor.data = lent.data + lent.byte_offset
    if lent.device_type in (CUDA, CUDA_MANAGED):
        tensor.device, tensor.device_id = CUDA_DEVICE, lent.device_id
    step = 1
    for i in reversed(range(lent.ndim)):
        tensor.shape[i] = lent.shape[i]
        tensor.strides[i] = lent.strides[i] if lent.strides else step
        step *= max(lent.shape[i], 1)
    return tensor


def reduce(library, op, array, axes, out):
    """The operation over the axes of array, into out: whatever lends its memory. On a GPU the work
    is on the default stream, as torch's is."""
    bits = sum(1 << axis for axis in axes)
    source, target = borrow(array), borrow(out, writable=True)
    status = library.gpured_reduce(op, source, bits, target, None)
    if status != 0:
        raise ValueError(library.gpured_status_string(status).decode())
    return source.data


# ---- the comparison ------------------------------------------------------------------------------


def show(name, got, want, tolerance, lent, pointer):
    """One line of output; whether the result is right and nothing was copied."""
    off = max(abs(float(g) - float(w)) for g, w in zip(got.ravel(), want.ravel()))
    fine = got.shape == want.shape and off <= tolerance and lent == pointer
    print(
        "%-44s %11.8g  numpy %11.8g  %s%s"
        % (
            name,
            got.ravel()[0],
            want.ravel()[0],
            "the same" if off == 0 else "within %.1g" % off,
            "" if fine else ": WRONG",
        )
    )
    return fine


def numpy_cases(np):
    """Name, operation, array, axes, dtype of the result, NumPy's result, tolerance."""
    x = np.random.default_rng(1).standard_normal((1000, 300)).astype(np.float32)
    wide = x.astype(np.float64)
    view = x[::-2, 5:250:7].T
    half = x[:8].astype(np.float16)
    lse = np.log(np.exp(wide).sum())
    means = half.astype(np.float64).mean(1)
    picture = (np.arange(60000) % 251).astype(np.uint8).reshape(100, 200, 3)
    f32, i64 = np.float32, np.int64
    yield "float32 1000x300, sum of columns", SUM, x, (0,), f32, wide.sum(0), 1e-3
    yield "float32 view, reversed, every 7th: max", MAX, view, (1,), f32, view.max(1), 0
    yield "float32 1000x300, logsumexp of all", LOGSUMEXP, x, (0, 1), f32, lse, 1e-5
    yield "float16 8x300, mean of rows", MEAN, half, (1,), f32, means, 1e-6
    yield "uint8 picture, sum of each colour", SUM, picture, (0, 1), i64, picture.sum((0, 1)), 0
    yield "float64, where a column is least", ARGMIN, wide, (0,), i64, wide.argmin(0), 0


def with_numpy(library, np):
    right = True
    for name, op, array, axes, dtype, want, tolerance in numpy_cases(np):
        want = np.asarray(want)
        out = np.empty(want.shape, dtype)
        data = reduce(library, op, array, axes, out)
        pointer = array.__array_interface__["data"][0]
        right &= show("numpy " + name, out, want, tolerance, data, pointer)
    return right


def with_torch(library, np):
    try:
        import torch
    except ImportError:
        print("torch is not installed: only NumPy")
        return True
    right = True
    places = ["cpu"]
    if torch.cuda.is_available() and library.gpured_cuda_available():
        places.append("cuda")
    for place in places:
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.arange(6000).reshape(60, 100).remainder(97).to(device=place, dtype=dtype)
            want = x.cpu().to(torch.float64).numpy().sum(1)
            out = torch.empty(60, device=place)
            data = reduce(library, SUM, x, (1,), out)
            name = "torch %s %s, sum of rows" % (place, str(dtype).split(".")[1])
            right &= show(name, out.cpu().numpy(), want, 0, data, x.data_ptr())
    return right


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit("usage: dlpack_ctypes.py [LIBRARY]")
    try:
        import numpy as np
    except ImportError:
        sys.exit("dlpack_ctypes.py: NumPy is not installed for this Python")
    try:
        library = load(sys.argv[1] if len(sys.argv) > 1 else "libgpured.so")
    except (OSError, AttributeError) as error:
        sys.exit("dlpack_ctypes.py: %s (make builds build/libgpured.so)" % error)
    right = with_numpy(library, np)
    right &= with_torch(library, np)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

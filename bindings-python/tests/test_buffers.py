"""What may be passed and what comes back, in a group of one in this process."""

import array
import ctypes
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import clean_environment

import lycaon


def refused(kind, call):
    with pytest.raises(lycaon.ArgumentError) as caught:
        call()
    assert caught.value.kind == kind, (caught.value.kind, str(caught.value))
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.parametrize(
    "given, dtype, shape",
    [
        (bytearray(b"abc"), "uint8", (3,)),
        (b"abc", "uint8", (3,)),
        (memoryview(b"abcd").cast("h"), "int16", (2,)),
        (memoryview(bytes(24)).cast("f", (2, 3)), "float32", (2, 3)),
        (array.array("l", [1, -2]), f"int{8 * array.array('l').itemsize}", (2,)),
        (array.array("L", [1, 2]), f"uint{8 * array.array('L').itemsize}", (2,)),
        (array.array("i", [1, -2]), "int32", (2,)),
        (array.array("q", [1, -2]), "int64", (2,)),
        (array.array("d", [1.5, -2]), "float64", (2,)),
        ((ctypes.c_float * 3)(1, 2, 3), "float32", (3,)),
        ((ctypes.c_int16 * 2)(1, 2), "int16", (2,)),
        (np.float32(1.5), "float32", ()),
        (np.array(3, "int16"), "int16", ()),
        (np.bool_(True), "bool", ()),
        (ml_dtypes.bfloat16(1.5), ml_dtypes.bfloat16, ()),
        (np.zeros((2, 0), np.complex64), "complex64", (2, 0)),
        (np.ones(2, "<f4"), "float32", (2,)),
        (True, "bool", ()),
        (3, "int64", ()),
        (-1.5, "float64", ()),
        (1 + 2j, "complex128", ()),
    ],
)
def test_inputs(alone, given, dtype, shape):
    got = alone.all_reduce(given)
    assert isinstance(got, np.ndarray) and got.dtype == np.dtype(dtype) and got.shape == shape
    plain = np.asarray(given, dtype) if not isinstance(given, bytes) else np.frombuffer(given, dtype)
    assert got.tobytes() == plain.tobytes()
    waited = alone.all_reduce_async(given).wait()
    assert waited.dtype == got.dtype and waited.tobytes() == got.tobytes()
    gathered = alone.all_gather(given)
    assert gathered.shape == (shape or (1,))


def test_results_keep_the_dtype_of_numpy(alone):
    for dtype in ("longlong", "ulonglong", "intc"):
        assert alone.all_reduce(np.ones(3, dtype)).dtype.char == np.dtype(dtype).char


def test_a_result_is_a_new_array(alone):
    x = np.arange(4.0)
    got = alone.all_reduce(x)
    assert not np.shares_memory(got, x)
    assert not np.shares_memory(alone.broadcast(x), x)


def test_subclasses_and_read_only_inputs(alone):
    x = np.arange(6.0).reshape(2, 3).view(np.matrix)
    assert type(alone.all_reduce(x)) is np.ndarray
    x = np.arange(4.0)
    x.flags.writeable = False
    assert alone.all_reduce(x).flags.writeable
    assert "read-only" in refused("read_only", lambda: alone.all_reduce(x, in_place=True))
    assert "read-only" in refused("read_only", lambda: alone.all_reduce(np.ones(4), out=x))
    refused("read_only", lambda: alone.all_reduce(b"abc", in_place=True))


def test_foreign_byte_order_is_refused_with_a_hint(alone):
    for dtype in (">f4", ">i8", ">c16", ">u2"):
        message = refused("byte_order", lambda dtype=dtype: alone.all_reduce(np.ones(3, dtype)))
        assert "newbyteorder" in message
    refused("byte_order", lambda: alone.scatter(np.ones(2), shape=(2,), out=np.ones(2, ">f8")))
    assert alone.all_reduce(np.ones(3, ">i1")).dtype == np.int8, "one byte has no order"


@pytest.mark.parametrize(
    "given",
    [
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, ml_dtypes.float8_e4m3),
        np.zeros(2, [("a", "f4"), ("b", "i4")]),
        np.zeros(2, "S3"),
        np.zeros(2, "U3"),
        array.array("u", "ab"),
    ],
)
def test_types_that_are_no_elements(alone, given):
    message = refused("unknown_dtype", lambda: alone.all_reduce(given))
    assert "known are bool, int8" in message


@pytest.mark.parametrize("given", [[1, 2], None, "abc", {}, object(), np.zeros(2, object)])
def test_what_is_no_array(alone, given):
    with pytest.raises((TypeError, lycaon.ArgumentError), match="buffer|element type"):
        alone.all_reduce(given)


def test_int_beyond_64_bits(alone):
    with pytest.raises(OverflowError):
        alone.all_reduce(1 << 64)


def test_out_must_fit_exactly(alone):
    x = np.ones((2, 3), np.float32)
    assert "(3, 2)" in refused("shape", lambda: alone.all_reduce(x, out=np.ones((3, 2), "f4")))
    refused("shape", lambda: alone.all_reduce(x, out=np.ones(6, "f4")))
    assert "float64" in refused("dtype", lambda: alone.all_reduce(x, out=np.ones((2, 3))))
    refused("not_contiguous", lambda: alone.all_reduce(x, out=np.ones((2, 6), "f4")[:, ::2]))
    refused("not_contiguous", lambda: alone.all_reduce(x, out=np.ones((3, 2), "f4").T))
    refused("not_contiguous", lambda: alone.all_reduce(x.T, in_place=True))
    refused("conflict", lambda: alone.all_reduce(x, out=x, in_place=True))
    with pytest.raises(TypeError):
        alone.all_reduce(x, out=[1])


def test_overlap_is_refused(alone):
    base = np.arange(10.0)
    refused("overlap", lambda: alone.all_reduce(base[:8], out=base[2:]))
    refused("overlap", lambda: alone.all_gather(base, out=base))
    refused("overlap", lambda: alone.scatter(base, out=base))
    # What is copied first cannot overlap.
    assert alone.all_reduce(base[::-1], out=base) is base
    assert base.tolist() == list(range(9, -1, -1))


def test_bfloat16_in_place_and_out(alone):
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    out = np.zeros(4, ml_dtypes.bfloat16)
    assert alone.all_reduce(x, out=out) is out and (out == x).all()
    assert alone.all_reduce(x, in_place=True) is x
    refused("dtype", lambda: alone.all_reduce(x, out=np.zeros(4, np.uint16)))
    refused("overlap", lambda: alone.all_reduce(x[:3], out=x[1:]))


@pytest.mark.parametrize(
    "dtype",
    ["f32", "float32", np.float32, np.dtype("float32"), "bf16", "bfloat16", ml_dtypes.bfloat16]
    + [float, int, bool, complex, "bool", np.bool_, "u8", np.dtype("longlong"), "complex64"],
)
def test_names_of_types(alone, dtype):
    # A rank that is not the root is told its type; in a group of one it is the out= that is.
    expected = {"f32": "float32", "bf16": ml_dtypes.bfloat16, "u8": "uint8"}
    expected = np.dtype(expected.get(dtype, dtype) if isinstance(dtype, str) else dtype)
    with pytest.raises(lycaon.ArgumentError) as caught:
        alone.recv((2,), dtype, 0)
    assert caught.value.kind == "self_message", str(caught.value)
    assert expected.itemsize > 0


def test_unknown_names_of_types(alone):
    for dtype in ("float31", np.dtype("S3"), object):
        refused("unknown_dtype", lambda dtype=dtype: alone.recv((2,), dtype, 0))
    refused("byte_order", lambda: alone.recv((2,), np.dtype(">f4"), 0))
    refused("missing_buffer", lambda: alone.recv((2,), src=0))
    with pytest.raises(TypeError, match="src"):
        alone.recv((2,), "f32")


def test_arguments(alone):
    x = np.ones(3)
    refused("unknown_op", lambda: alone.all_reduce(x, "sun"))
    refused("unsupported", lambda: alone.all_reduce(x, "band"))
    for root in (1, -1, 1 << 40):
        assert "0 to 0" in refused("no_such_rank", lambda root=root: alone.broadcast(x, root))
    refused("self_message", lambda: alone.send(x, 0))
    refused("tag", lambda: alone.send(x, 0, tag=-1))
    refused("counts", lambda: alone.all_gather_v(x, [1, 2]))
    refused("length", lambda: alone.all_gather_v(x, [2]))
    refused("missing_buffer", lambda: alone.scatter())
    refused("missing_buffer", lambda: alone.gather_v(x))
    with pytest.raises(OverflowError):
        alone.all_gather_v(x, [-3])
    # The group goes on after all of that.
    assert alone.all_reduce(x).tolist() == [1, 1, 1]


def test_without_numpy():
    program = """
import sys
sys.modules["numpy"] = None
import array, lycaon
group = lycaon.init()
got = group.all_reduce(array.array("f", [1, 2.5]))
assert isinstance(got, memoryview) and got.format == "f" and got.tolist() == [1, 2.5]
got = group.all_gather(memoryview(bytes(range(6))).cast("B", (2, 3)))
assert got.shape == (2, 3) and got.tolist() == [[0, 1, 2], [3, 4, 5]]
got = group.all_reduce(7)
assert got.shape == () and got.tolist() == 7
got = group.all_reduce(bytearray())
assert got.nbytes == 0
box = bytearray(b"ab")
assert group.all_reduce(box, in_place=True) is box
try:
    group.all_reduce([1])
except TypeError as error:
    assert "buffer protocol" in str(error)
else:
    raise SystemExit("a list was taken")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30, env=clean_environment())

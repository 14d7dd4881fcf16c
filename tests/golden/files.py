#!/usr/bin/env python3
"""Files of NumPy's and of the safetensors package, for tests/core/files/golden_test.cpp; and reads those of ours.

    pip install numpy safetensors
    tests/golden/files.py write     # theirs.safetensors, and *.npy, beside this script
    tests/golden/files.py check     # reads ours.safetensors, which the test compares with what it writes

Made with numpy 2.4.6 and safetensors 0.8.0.
"""

import pathlib
import sys

import numpy
import safetensors

HERE = pathlib.Path(__file__).resolve().parent
# Number k in this list has elements (7 i + 3 k) % 11, of floats less 5 and by 4, of bools % 2.
TENSORS = [
    ("conv.weight", "float32", (2, 3, 2, 2)),
    ("norm.num_batches_tracked", "int64", ()),
    ("half", "float16", (5,)),
    ("brain", "bfloat16", (3,)),
    ("double", "float64", (2, 2)),
    ("integer", "int32", (3,)),
    ("bytes", "uint8", (4,)),
    ("flags", "bool", (3,)),
    ("none", "float32", (0, 4)),
    ('größe "x"\\', "float32", (1,)),
]
NAMES = {"float32": "F32", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "int32": "I32",
         "uint8": "U8", "bool": "BOOL"}


def values(k, dtype, shape):
    x = (7 * numpy.arange(int(numpy.prod(shape))) + 3 * k) % 11
    if dtype == "bool":
        x = x % 2
    elif "float" in dtype:
        x = (x - 5) / 4
    return x.reshape(shape)


def raw(k, dtype, shape):
    x = values(k, dtype, shape)
    if dtype == "bfloat16":  # which NumPy does not have: the upper half of these floats is all of them
        return (x.astype("float32").view("uint32") >> 16).astype("uint16")
    return x.astype(dtype)


def write():
    arrays = [raw(k, dtype, shape) for k, (_, dtype, shape) in enumerate(TENSORS)]  # which the specs only point to
    specs = {name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=x.ctypes.data, data_len=x.nbytes)
             for x, (name, dtype, shape) in zip(arrays, TENSORS)}
    (HERE / "theirs.safetensors").write_bytes(safetensors.serialize(specs, {"maker": "safetensors"}))
    x = values(0, "float32", (2, 3, 4))
    numpy.save(HERE / "c.npy", x.astype("float32"))
    numpy.save(HERE / "fortran.npy", numpy.asfortranarray(x.astype("float64")))
    for version in 2, 3:
        with open(HERE / f"version{version}.npy", "wb") as file:
            numpy.lib.format.write_array(file, x.astype("int32"), version=(version, 0))


def check():
    path = HERE / "ours.safetensors"
    found = dict(safetensors.deserialize(path.read_bytes()))
    assert set(found) == {name for name, _, _ in TENSORS}, list(found)
    for k, (name, dtype, shape) in enumerate(TENSORS):
        t = found[name]
        assert (t["dtype"], tuple(t["shape"])) == (NAMES[dtype], shape), (name, t["dtype"], t["shape"])
        assert bytes(t["data"]) == raw(k, dtype, shape).tobytes(), name
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata()["maker"] == "bytetape", file.metadata()
        assert (file.get_tensor("conv.weight") == values(0, *TENSORS[0][1:])).all()
    print(f"{path} holds all {len(TENSORS)} tensors")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]]()

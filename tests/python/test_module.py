"""The Python module: tensors cross to NumPy and PyTorch and back without a copy, and files are read.

PyTorch's part is left out where it is not installed, and the GPU's where there is none.
"""

import ctypes
import gc
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import time
import unittest
import warnings

import bytetape
import numpy as np

try:
    import torch
except ImportError:
    torch = None
HAS_GPU = torch is not None and torch.cuda.is_available()
try:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # JAX would take most of the GPU's memory
    import jax
except ImportError:
    jax = None


def save_safetensors(path, arrays):
    header, data = {}, b""
    for name, (dtype, array) in arrays.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def external(device="cpu"):
    gc.collect()
    return bytetape.memory.stats(device)["external"]


def gives_buffer(x, flags):
    view = ctypes.create_string_buffer(200)  # more than a Py_buffer
    try:
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), view, flags)
    except BufferError:
        return False
    ctypes.pythonapi.PyBuffer_Release(view)
    return True


class Exchange(unittest.TestCase):
    def test_numpy_shares_memory_both_ways(self):
        a = np.arange(24, dtype=np.float32).reshape(4, 6)
        before = external()
        x = bytetape.from_dlpack(a[1:, ::2])
        self.assertEqual((x.shape, x.strides, x.dtype, x.device), ((3, 3), (6, 2), "f32", "cpu"))
        self.assertEqual(external() - before, 4 * (2 * 6 + 2 * 2 + 1))
        b = np.from_dlpack(x)
        self.assertEqual(b.ctypes.data, a[1:, ::2].ctypes.data)
        a[1, 2] = 100
        self.assertEqual(b[0, 1], 100)
        del x, b
        self.assertEqual(external(), before)

    def test_each_dtype(self):
        for dtype in (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_):
            a = (np.random.default_rng(1).random((3, 5)) * 100).astype(dtype)
            np.testing.assert_array_equal(np.from_dlpack(bytetape.from_dlpack(a)), a)
            np.testing.assert_array_equal(np.asarray(memoryview(bytetape.from_dlpack(a))), a)
        for dtype in (np.int16, np.uint32, np.complex64):
            with self.assertRaisesRegex(TypeError, "expected one of bytetape's dtypes, got DLPack's (int16|uint32|complex64)"):
                bytetape.from_dlpack(np.zeros(3, dtype))

    def test_empty_and_scalar(self):
        self.assertEqual(bytetape.from_dlpack(np.zeros((2, 0), np.float32)).shape, (2, 0))
        self.assertEqual(np.from_dlpack(bytetape.from_dlpack(np.array(3.5))), 3.5)

    def test_read_only_stays_read_only(self):
        a = np.arange(3.0)
        a.flags.writeable = False
        x = bytetape.from_dlpack(a)
        self.assertFalse(np.from_dlpack(x).flags.writeable)
        with self.assertRaisesRegex(BufferError, "DLPack 0 has no read-only tensors"):
            x.__dlpack__()
        self.assertTrue(memoryview(x).readonly)
        self.assertTrue(np.from_dlpack(x.clone()).flags.writeable)

    def test_bad_objects(self):
        with self.assertRaisesRegex(TypeError, "__dlpack__"):
            bytetape.from_dlpack([1, 2])
        with self.assertRaisesRegex(ValueError, "strides of at least 0"):
            bytetape.from_dlpack(np.arange(4.0)[::-1])
        with self.assertRaisesRegex(ValueError, "no stream for a tensor on the CPU"):
            bytetape.from_dlpack(np.zeros(2)).__dlpack__(stream=7)

    def test_a_tensor_lives_as_long_as_its_buffer(self):
        x = bytetape.from_dlpack(np.arange(5.0)).clone()
        view = memoryview(x)
        del x
        gc.collect()
        self.assertEqual(view.tolist(), [0, 1, 2, 3, 4])

    def test_an_unused_capsule_gives_its_memory_back(self):
        x = bytetape.from_dlpack(np.zeros(1000)).clone()
        before = bytetape.memory.stats()["allocated"]
        capsules = [x.__dlpack__(max_version=v) for v in (None, (1, 0))]
        self.assertIn('"dltensor"', repr(capsules[0]))
        self.assertIn('"dltensor_versioned"', repr(capsules[1]))
        del x
        self.assertEqual(bytetape.memory.stats()["allocated"], before)
        del capsules
        gc.collect()
        self.assertLess(bytetape.memory.stats()["allocated"], before)

    def test_buffers_have_the_order_that_is_asked_for(self):
        strides, c_order, f_order, any_order = 0x18, 0x38, 0x58, 0x98  # PyBUF_...
        rows = bytetape.from_dlpack(np.zeros((3, 4), np.float32))
        columns = bytetape.from_dlpack(np.zeros((4, 3), np.float32).T)
        gaps = bytetape.from_dlpack(np.zeros((3, 8), np.float32)[:, ::2])
        given = {name: [gives_buffer(x, flags) for flags in (0, strides, c_order, f_order, any_order)]
                 for name, x in (("rows", rows), ("columns", columns), ("gaps", gaps))}
        self.assertEqual(given, {"rows": [True, True, True, False, True],
                                 "columns": [False, True, False, True, True],
                                 "gaps": [False, True, False, False, False]})

    def test_a_tensor_without_a_value_has_no_buffer(self):
        with self.assertRaisesRegex(BufferError, "not initialized"):
            memoryview(bytetape.Tensor.__new__(bytetape.Tensor))

    def test_a_meta_tensor_has_no_memory_to_share(self):
        x = bytetape.from_dlpack(np.zeros(2)).to("meta")
        for share in (x.__dlpack_device__, x.__dlpack__, lambda: np.from_dlpack(x)):
            with self.assertRaisesRegex(BufferError, "a meta tensor has no memory"):
                share()

    def test_copies_where_asked(self):
        a = np.arange(3.0)
        x = bytetape.from_dlpack(a)
        copied = np.from_dlpack(x, copy=True)
        self.assertNotEqual(copied.ctypes.data, a.ctypes.data)
        np.testing.assert_array_equal(copied, a)

    def test_ten_thousand_hand_overs(self):
        before = bytetape.memory.stats()["allocated"], external()
        a = np.arange(1000, dtype=np.float32)
        for i in range(10_000):
            x = bytetape.from_dlpack(a[i % 10 :])
            b = np.from_dlpack(x)
            self.assertEqual(b.ctypes.data, a.ctypes.data + 4 * (i % 10))
        del x, b
        self.assertEqual((bytetape.memory.stats()["allocated"], external()), before)


@unittest.skipUnless(torch, "PyTorch is not installed")
class ExchangeWithPyTorch(unittest.TestCase):
    def test_shares_memory_both_ways(self):
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
            t = (torch.rand(4, 6) * 100).to(dtype).T[1:, ::2]
            x = bytetape.from_dlpack(t)
            u = torch.from_dlpack(x)
            self.assertEqual(u.data_ptr(), t.data_ptr())
            self.assertTrue(torch.equal(u, t))

    def test_a_tensor_that_comes_back_is_not_external(self):
        x = bytetape.from_dlpack(np.arange(6.0)).clone()
        t = torch.from_dlpack(x)
        before = external()
        back = bytetape.from_dlpack(t[2:])
        self.assertEqual(external(), before)
        t[3] = 50
        self.assertEqual(np.from_dlpack(back)[1], 50)

    @unittest.skipUnless(HAS_GPU, "there is no GPU")
    def test_on_the_gpu(self):
        t = torch.rand(1000, 1000, device="cuda")
        before = external("cuda")
        x = bytetape.from_dlpack(t.T)
        self.assertEqual((x.device, x.strides), ("cuda", (1, 1000)))
        self.assertEqual(external("cuda") - before, t.nbytes)
        u = torch.from_dlpack(x)
        self.assertEqual(u.data_ptr(), t.data_ptr())
        y = x.clone()  # on our stream, behind PyTorch's
        self.assertTrue(torch.equal(torch.from_dlpack(y), t.T))
        self.assertTrue(torch.equal(torch.from_dlpack(y.to("cpu")), t.T.cpu()))
        del x, u
        self.assert_external(before)

    @unittest.skipUnless(HAS_GPU, "there is no GPU")
    def test_streams_wait_for_each_other(self):
        side = torch.cuda.Stream()
        for i in range(50):
            with torch.cuda.stream(side):
                t = torch.rand(4_000_000, device="cuda")
                for _ in range(20):
                    t = t * 0.5 + 1  # still runs when the tensor is handed over
                x = bytetape.from_dlpack(t)
                u = torch.from_dlpack(x.clone())
                self.assertTrue(torch.equal(u, t), f"try {i}")
            del t, x, u  # PyTorch may use the memory again at once, and ours only behind its work

    @unittest.skipUnless(HAS_GPU, "there is no GPU")
    def test_ten_thousand_hand_overs_on_the_gpu(self):
        t = torch.rand(1000, device="cuda")
        before = external("cuda"), bytetape.memory.stats("cuda")["allocated"], torch.cuda.memory_allocated()
        for i in range(10_000):
            u = torch.from_dlpack(bytetape.from_dlpack(t[i % 10 :]))
            self.assertEqual(u.data_ptr(), t.data_ptr() + 4 * (i % 10))
        del u
        self.assert_external(before[0])
        torch.cuda.synchronize()
        self.assertEqual(bytetape.memory.stats("cuda")["allocated"], before[1])
        self.assertEqual(torch.cuda.memory_allocated(), before[2])

    @unittest.skipUnless(HAS_GPU, "there is no GPU")
    def test_cudnn_of_both_libraries(self):
        layer = torch.nn.Conv2d(8, 16, 3, padding=1).cuda()
        images = torch.rand(4, 8, 20, 20, device="cuda")
        expected = layer(images)
        y = bytetape.from_dlpack(expected.detach()).clone()
        self.assertTrue(torch.equal(torch.from_dlpack(y), expected))
        self.assertTrue(torch.equal(layer(torch.from_dlpack(bytetape.from_dlpack(images))), expected))

    @unittest.skipUnless(HAS_GPU, "there is no GPU")
    def test_copies_to_the_gpu_where_asked(self):
        a = np.random.rand(1000, 1000).astype(np.float32)
        for _ in range(20):
            u = torch.from_dlpack(bytetape.from_dlpack(a), device="cuda")
            self.assertEqual(u.device.type, "cuda")
            self.assertTrue(torch.equal(u.cpu(), torch.from_numpy(a)))
        y = bytetape.from_dlpack(u)
        np.testing.assert_array_equal(np.from_dlpack(y, device="cpu"), a)
        with self.assertRaisesRegex(BufferError, "per-thread default stream"):
            y.__dlpack__(stream=2)
        with self.assertRaisesRegex(ValueError, "expected a stream, got -5"):
            y.__dlpack__(stream=-5)

    @unittest.skipUnless(HAS_GPU and torch.cuda.device_count() > 1, "there is no second GPU")
    def test_another_gpu_does_not_become_the_current_one(self):
        t = torch.rand(1000, device="cuda:1")
        before = external("cuda:1")
        for work in (lambda: bytetape.from_dlpack(t), lambda: torch.from_dlpack(bytetape.from_dlpack(t)),
                     lambda: bytetape.from_dlpack(t).clone(), lambda: repr(bytetape.from_dlpack(t)),
                     lambda: bytetape.from_dlpack(t).to("cpu"), lambda: bytetape.from_dlpack(t).to("cuda:0"),
                     lambda: bytetape.memory.stats("cuda:1"), lambda: bytetape.memory.synchronize("cuda:1")):
            work()
            self.assertEqual(torch.cuda.current_device(), 0)
        y = bytetape.from_dlpack(t * 2).clone()
        self.assertEqual(y.device, "cuda:1")
        self.assertTrue(torch.equal(torch.from_dlpack(y), t * 2))
        self.assert_external(before, "cuda:1")
        self.assertEqual(torch.cuda.current_device(), 0)

    def assert_external(self, bytes, device="cuda"):
        gc.collect()
        bytetape.memory.finish_releases()
        self.assertEqual(external(device), bytes)


def address_of(tensor):
    """The address of a tensor's first element, from its capsule. See DLManagedTensorVersioned and DLTensor in dlpack.h."""
    capsule = tensor.__dlpack__(max_version=(1, 0))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    version_to_flags, byte_offset_at = 8 + 8 + 8 + 8, 40
    at = get(capsule, b"dltensor_versioned") + version_to_flags
    return ctypes.c_uint64.from_address(at).value + ctypes.c_uint64.from_address(at + byte_offset_at).value


@unittest.skipUnless(jax, "JAX is not installed")
class ExchangeWithJax(unittest.TestCase):
    def test_many_hand_overs(self):
        a = jax.numpy.arange(12, dtype="float32").reshape(3, 4)
        y = bytetape.from_dlpack(a).clone()
        where = y.device
        before = external(where), bytetape.memory.stats(where)["allocated"]
        arrays = len(jax.live_arrays())
        for i in range(10_000):
            x = bytetape.from_dlpack(a)
            self.assertEqual(address_of(x), a.unsafe_buffer_pointer())
            back = jax.dlpack.from_dlpack(y)
            self.assertEqual(back.unsafe_buffer_pointer(), address_of(y))
            if i % 10 == 0:
                self.assertTrue(bool((jax.dlpack.from_dlpack(x.clone()) == a).all()))
        del x, back
        gc.collect()
        self.assertEqual(len(jax.live_arrays()), arrays)
        bytetape.memory.finish_releases()
        self.assertEqual(external(where), before[0])
        deadline = time.time() + 10  # JAX returns memory on a thread of its own
        while bytetape.memory.stats(where)["allocated"] != before[1] and time.time() < deadline:
            time.sleep(0.01)
        self.assertEqual(bytetape.memory.stats(where)["allocated"], before[1])

    def test_shares_memory_both_ways(self):
        a = jax.numpy.arange(12, dtype="float32").reshape(3, 4)
        x = bytetape.from_dlpack(a)
        self.assertEqual(x.device.split(":")[0], {"gpu": "cuda"}.get(a.device.platform, a.device.platform))
        y = x.clone()
        back = jax.dlpack.from_dlpack(y)
        self.assertTrue(bool((back == a).all()))
        if torch:
            self.assertEqual(torch.from_dlpack(x).data_ptr(), a.unsafe_buffer_pointer())
            self.assertEqual(torch.from_dlpack(y).data_ptr(), back.unsafe_buffer_pointer())


class Files(unittest.TestCase):
    def test_loads_safetensors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.safetensors")
            w, n = np.random.rand(3, 4).astype(np.float32), np.arange(5)
            save_safetensors(path, {"w": ("F32", w), "n": ("I64", n)})
            all = bytetape.load(path)
        self.assertEqual(list(all), ["w", "n"])
        np.testing.assert_array_equal(np.from_dlpack(all["w"]), w)
        np.testing.assert_array_equal(np.from_dlpack(all["n"]), n)
        self.assertEqual(all["w"].nbytes, 48)
        self.assertEqual(len(all["w"]), 3)
        self.assertIn("f32(3, 4)", repr(all["w"]))

    def test_says_what_is_wrong_with_a_file(self):
        with self.assertRaisesRegex(OSError, "nowhere.safetensors"):
            bytetape.load("nowhere.safetensors")
        with tempfile.NamedTemporaryFile(suffix=".memlog") as file:
            file.write(b"bytetape-memlog 9\n")
            file.flush()
            with self.assertRaisesRegex(OSError, os.path.basename(file.name)):
                bytetape.load(file.name)
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            header = b'{"a\xff": 3}'
            file.write(struct.pack("<Q", len(header)) + header)
            file.flush()
            with self.assertRaisesRegex(OSError, os.path.basename(file.name)):
                bytetape.load(file.name)

    def test_refuses_other_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "other")
            for content in b"", b"text", b"a longer text of words\n", b"\x08\x07\x12\x07pytorch:\x01":
                pathlib.Path(path).write_bytes(content)
                with self.assertRaisesRegex(OSError, "other: neither a safetensors file nor a recording"):
                    bytetape.load(path)
            with self.assertRaisesRegex(OSError, "found a directory"):
                bytetape.load(folder)
            save_safetensors(path, {"n": ("I64", np.arange(5))})
            whole = pathlib.Path(path).read_bytes()
            pathlib.Path(path).write_bytes(whole[:-3])
            lengths = f"expected {len(whole)} bytes, found {len(whole) - 3}"
            with self.assertRaisesRegex(OSError, "the file is cut off: " + lengths):
                bytetape.load(path)

    def test_takes_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.safetensors"
            save_safetensors(path, {"n": ("I64", np.arange(5))})
            self.assertEqual(list(bytetape.load(path)), ["n"])
            other = os.fsencode(folder) + b"/\xff.safetensors"
            os.rename(path, other)
            self.assertEqual(list(bytetape.load(other)), ["n"])
        with self.assertRaises(TypeError):
            bytetape.load(3)

    @unittest.skipUnless(os.environ.get("BYTETAPE_RECORD"), "there is no program to record")
    def test_loads_recordings(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.memlog")
            subprocess.run([os.environ["BYTETAPE_RECORD"], path], cwd=folder, check=True, capture_output=True)
            run = bytetape.load(path)
            self.assertTrue(run.complete)
            self.assertEqual(run.damage, "")
            device = next(d for d in run.devices if d.name == "cpu")
            allocated = np.from_dlpack(device.allocated)
            self.assertEqual(allocated.max(), device.peak_allocated)
            self.assertEqual(allocated[-1], device.statistics["allocated"])
            self.assertEqual(sum(device.statistics["by_role_at_peak"].values()), device.peak_allocated)
            self.assertEqual(np.from_dlpack(device.reserved).max(), device.peak_reserved)
            self.assertTrue((np.diff(np.from_dlpack(device.time)) >= 0).all())
            self.assertEqual(max(s["peak"] for s in device.steps), device.peak_allocated)
            self.assertIn("steps and phases", device.summary())
            self.assertTrue(all(isinstance(text, str) for text in run.advice))
            report = os.path.join(folder, "memory.html")
            try:
                run.write_report(report)
            except RuntimeError as e:
                self.assertIn("d3", str(e))
            else:
                self.assertGreater(os.path.getsize(report), 100_000)

    @unittest.skipUnless(os.environ.get("BYTETAPE_RECORD"), "there is no program to record")
    def test_warns_of_damage(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.memlog"
            subprocess.run([os.environ["BYTETAPE_RECORD"], path], cwd=folder, check=True, capture_output=True)
            whole = path.read_bytes()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                bytetape.load(path)
            path.write_bytes(whole[:-200] + b"\xff" * 200)
            with self.assertWarnsRegex(RuntimeWarning, "run.memlog: at byte .*; the rest was not read"):
                run = bytetape.load(path)
            self.assertIn("at byte", run.damage)
            self.assertFalse(run.complete)
            self.assertGreater(run.devices[0].peak_allocated, 0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with self.assertRaises(RuntimeWarning):
                    bytetape.load(path)

    @unittest.skipUnless(os.environ.get("BYTETAPE_RECORD"), "there is no program to record")
    def test_loads_recordings_with_names_that_are_not_utf8(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.memlog")
            subprocess.run([os.environ["BYTETAPE_RECORD"].encode(), path.encode(), b"\xff"], check=True)
            run = bytetape.load(path)
        self.assertEqual(run.program, "record\ufffd")
        self.assertTrue(any(r"hidden\xff" in device.summary() for device in run.devices))
        self.assertTrue(all(isinstance(text, str) for text in run.advice))

    @unittest.skipUnless(os.environ.get("BYTETAPE_RECORD"), "there is no program to record")
    def test_loads_predictions(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "predicted.memlog")
            printed = subprocess.run([os.environ["BYTETAPE_RECORD"], path, "cuda"], check=True, capture_output=True)
            run = bytetape.load(path)
        device = run.devices[0]
        self.assertIn("cuda", device.name)
        self.assertIn("predicted", run.program)
        peaks = [int(word) for word in printed.stdout.split()]
        self.assertEqual([device.peak_allocated, device.peak_reserved], peaks)
        self.assertGreater(peaks[0], 0)
        self.assertEqual(max(s["peak"] for s in device.steps), device.peak_allocated)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Compares exported models with onnxruntime.

    tests/onnx/check.py build/release/tests/onnx_tests [--case NAME]

The program exports its cases, and saves fresh inputs and the expected results for several batch sizes. Each model must
pass onnx.checker, and onnxruntime's results must differ from the expected ones by at most 1e-5 times the largest
magnitude of the results, or 1e-5 if that is below 1 (f16: 4e-3). Prints the largest difference of each case. Exits with
77 if onnx, onnxruntime or numpy is not installed (scripts/download_onnxruntime installs them). BYTETAPE_ONNX_LARGE=1
adds GPT-2 with 124 million parameters (Gpt2, Gpt2WithCache1).
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path.home() / ".cache/bytetape/onnxruntime"))
try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE = 1e-5
TOLERANCE_F16 = 4e-3  # four units in the last place
NO_KERNEL = re.compile("NOT_IMPLEMENTED|MLFloat16 data type is not supported")
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}


def load_runs(path):
    """The arrays of a safetensors file, by run and by kind: {"run_0": {"in": [...], "out": [...]}}."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    runs = collections.defaultdict(lambda: collections.defaultdict(dict))
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        run, kind, number = re.fullmatch(r"(run_\d+)/(in|out)_(\d+)", name).groups()
        array = numpy.frombuffer(data[start + begin : start + end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        runs[run][kind][int(number)] = array
    return {run: {kind: [arrays[i] for i in sorted(arrays)] for kind, arrays in kinds.items()} for run, kinds in runs.items()}


def difference(found, expected):
    """The largest difference, relative to the largest magnitude if that is above 1."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if expected.size == 0:
        return 0.0
    if not numpy.issubdtype(expected.dtype, numpy.floating):
        return float(numpy.sum(found != expected))
    same = (found == expected) | (numpy.isnan(found) & numpy.isnan(expected))
    finite = numpy.where(numpy.isfinite(expected), expected, 0)
    with numpy.errstate(invalid="ignore"):
        gaps = numpy.where(same, 0, numpy.abs(found.astype(numpy.float64) - expected))
    return float(numpy.max(gaps)) / max(1.0, float(numpy.max(numpy.abs(finite))))


def check_case(folder):
    """The largest difference over all runs. Throws if the model is invalid."""
    path = folder / "model.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    names = [x.name for x in session.get_inputs()]
    for run, arrays in load_runs(folder / "runs.safetensors").items():
        found = session.run(None, dict(zip(names, arrays["in"])))
        expected = arrays["out"]
        if len(found) != len(expected):
            return f"{len(found)} results instead of {len(expected)}"
        for result in map(difference, found, expected):
            if isinstance(result, str) or result != result:
                return f"{run}: {result}"
            worst = max(worst, result)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--case")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    failed = unsupported = 0
    with tempfile.TemporaryDirectory() as root:
        environment = dict(os.environ, BYTETAPE_ONNX_MODELS=root)
        wrote = subprocess.run([arguments.program, "--gtest_filter=Export.ConvertsEachCase"], env=environment)
        cases = sorted(path for path in pathlib.Path(root).iterdir() if arguments.case in (None, path.name))
        for folder in cases:
            try:
                worst = check_case(folder)
            except Exception as error:  # of the checker or of onnxruntime, whose classes differ
                worst = str(error).strip()
            if folder.name.endswith(("_f64", "_f16")) and NO_KERNEL.search(str(worst)):  # the checker accepts the model
                unsupported += 1
                continue
            tolerance = TOLERANCE_F16 if folder.name.endswith("_f16") else TOLERANCE
            is_good = not isinstance(worst, str) and worst <= tolerance
            failed += not is_good
            print(f"{'ok    ' if is_good else 'FAILED'} {folder.name}: {worst if isinstance(worst, str) else f'{worst:.1e}'}", flush=True)
    count = len(cases) - unsupported
    print(f"{count - failed} of {count} models agree with onnxruntime {onnxruntime.__version__}, which lacks f64 or f16 kernels for {unsupported} more")
    sys.exit(bool(failed) or not cases or wrote.returncode != 0)


if __name__ == "__main__":
    main()

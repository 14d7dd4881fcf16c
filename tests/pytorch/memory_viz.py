#!/usr/bin/env python3
"""Has PyTorch's own viewers read what bytetape-memory exports for them, and compares the sums with the recording's.

    tests/pytorch/memory_viz.py build/release/examples/bytetape-memory build/release/tests/programs/record

Exits with 77 where PyTorch is missing.
"""

import csv
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile

try:
    from torch.cuda import _memory_viz
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def held_and_reserved(lines):
    """By the recording itself: bytes asked for and reserved in the end, and the most that were asked for."""
    requested = peak = reserved = 0
    for line in lines:
        sign = {"alloc": 1, "free": -1}.get(line["kind"], 0)
        requested += sign * int(line["requested"])
        peak = max(peak, requested)
        reserved += {"segment_alloc": 1, "segment_free": -1}.get(line["kind"], 0) * int(line["bytes"])
    return requested, peak, reserved


def peak_of(trace):
    """As memory_viz adds a trace up."""
    held = peak = 0
    for entry in trace:
        held += {"alloc": 1, "free_completed": -1}.get(entry["action"], 0) * entry["size"]
        peak = max(peak, held)
    return peak


def main(program, record):
    folder = pathlib.Path(tempfile.mkdtemp())
    subprocess.run([record, folder / "run.memlog", "64", "stop"], check=True)
    for to in "torch", "csv":
        subprocess.run([program, "export", folder / "run.memlog", "--to", to, folder / to], check=True)
    snapshot = pickle.loads((folder / "torch").read_bytes())
    with open(folder / "csv", newline="") as lines:
        requested, peak, reserved = held_and_reserved(list(csv.DictReader(lines)))

    (trace,) = snapshot["device_traces"]
    assert peak_of(trace) == peak, (peak_of(trace), peak)
    assert sum(s["requested_size"] for s in snapshot["segments"]) == requested > 0
    assert sum(s["total_size"] for s in snapshot["segments"]) == reserved
    for segment in snapshot["segments"]:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]

    assert "total_reserved" in _memory_viz.segsum(snapshot)  # which asserts sums of its own
    text = _memory_viz.trace(snapshot)
    assert "cudaMalloc" in text and "free completed" in text
    flames = _memory_viz.memory(snapshot, format_flamegraph=lambda lines: lines)
    assert re.search(r"active_allocated;step:0:setup;fc1:0:[^;]*;tensor:0:f32 256x784 \d+", flames), flames
    for page in _memory_viz.trace_plot(snapshot), _memory_viz.trace_plot(snapshot, plot_segments=True), _memory_viz.segment_plot(snapshot):
        assert "snapshot.pickle" in page
    kinds = {e["category"] for e in trace if "category" in e}
    assert {"parameter", "optimizer state", "saved for backward", "unknown"} <= kinds, kinds
    print(f"{len(trace)} entries, {peak} bytes at the peak, as recorded")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""Compiles a program of PyTorch's C++ API and bytetape, and runs it on the CPU and, if there is one, on the GPU.

    tests/pytorch/one_process/check.py BUILD      BUILD is build/release

Exits with 77 without PyTorch.
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def main():
    here, build = pathlib.Path(__file__).resolve().parent, pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(torch.__file__).parent
    gpu = torch.cuda.is_available()
    libraries = [name for name in ("torch_cuda", "c10_cuda") if gpu and (folder / f"lib/lib{name}.so").exists()]
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        run("cmake", "--install", build, "--prefix", work / "installed")
        run("cmake", "-S", here, "-B", work / "build", f"-DCMAKE_PREFIX_PATH={work / 'installed'}", f"-DTORCH={folder}",
            f"-DTORCH_CUDA_LIBRARIES={';'.join(libraries)}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", work / "build")
        for device in ("cpu", "cuda") if gpu else ("cpu",):
            print(run(work / "build/one_process", device), end="")


if __name__ == "__main__":
    main()

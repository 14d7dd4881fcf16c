#!/usr/bin/env python3
"""Makes one of several ranks fail at random, and checks that the others end with an error that says why, in time, and that
rank 0 has left a checkpoint of whole steps.

usage: check_failing_ranks.py PROGRAM [--runs N] [--seed N] [--ranks N] [--cuda]
The exit code is 77 without a known launcher. With --cuda, NCCL connects a GPU for each rank.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

STEPS, TIMEOUT = 6, 6
FAILURES = ["throws", "dies", "stops", "other", "size", "shape", "group", "grad", "retry", "fault", "leaves"]
# NCCL does not see that ranks call different collectives, but they wait for each other.
FAILURES_OF_GPUS = ["throws", "dies", "stops", "other", "fault", "leaves"]
DIFFERENCES = {"shape": "; their shapes differ", "group": "; their groups differ", "retry": "; their tags differ",
               "grad": ", on the tape", "other": " broadcast of f32, 2 elements", "size": " all_reduce (sum) of f32, 3 elements"}


def expected(failure, rank, other, is_on_gpus):
    """Parts of the error on another rank than the one that fails. One of them must occur."""
    told = f"rank {rank} failed: "
    if failure == "throws":
        return [told + "the disk is full"]
    if failure == "fault":
        return [told] + ([f"rank {rank} has computed with an invalid value"] if is_on_gpus else [])
    missing = f"rank {other} had no answer from rank {rank} within {TIMEOUT} s"
    if is_on_gpus:  # before NCCL has connected the ranks, it is known who is missing
        return [f"rank {other} had no answer from all ranks within {TIMEOUT} s", "failed: ", missing]
    if failure in DIFFERENCES:
        return [DIFFERENCES[failure]]  # found here, or told by another rank
    # A rank that waits for one that waits may give up first, and tell it.
    return [missing, "failed: ", "MPI: "]


def launch(option, program, ranks, folder, failure, rank, step, is_on_gpus):
    here = pathlib.Path(__file__).resolve().parent
    command = [here.parent / "distributed" / "run_ranks", str(ranks), program, folder, failure, str(rank), str(step)]
    command += ["cuda"] if is_on_gpus else []
    environment = os.environ | {"MPIRUN_OPTION": option}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            start_new_session=True)


def launcher():
    """Returns the launcher's option that lets other ranks go on after a failure, and the failures after which it ends
    them all the same."""
    version = subprocess.run([os.environ.get("MPIRUN", "mpirun"), "--version"], capture_output=True, text=True).stdout
    if "(Open MPI) 4" in version or "(OpenRTE) 4" in version:
        return "--enable-recovery", []
    if "HYDRA" in version:
        return "-disable-auto-cleanup", ["dies"]
    return ("", FAILURES) if "Open MPI" in version or "OpenRTE" in version or "PRRTE" in version else (None, [])


def wait(process, folder, ranks, seconds):
    """Waits until the ranks have written how they ended, or the launcher has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if all((folder / f"rank{r}").exists() for r in ranks):
            time.sleep(0.1)
            return True
        if process.poll() is not None:
            return True
        time.sleep(0.05)
    return False


def run(option, is_ended, program, ranks, failure, rank, step, is_on_gpus):
    faults = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        process = launch(option, program, ranks, name, failure, rank, step, is_on_gpus)
        others = [r for r in range(ranks) if r != rank]
        began = time.monotonic()
        if not wait(process, folder, others, 10 * TIMEOUT):
            faults.append("a rank still waits")
        took = time.monotonic() - began
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all have ended
        process.wait()
        for other in others:
            file = folder / f"rank{other}"
            text = file.read_text() if file.exists() else "(nothing)"
            if not (is_ended and not file.exists()) and not any(part in text for part in expected(failure, rank, other, is_on_gpus)):
                faults.append(f"rank {other} ended with: {text}")
        checkpoint = (folder / "run.ckpt").exists()
        if checkpoint != (step > 0) and not is_ended:
            faults.append("a checkpoint" if checkpoint else "no checkpoint")
        if list(folder.glob("run.ckpt?*")) and not is_ended:
            faults.append("a part of a checkpoint")
    print(f"rank {rank} {failure} in step {step}: {'; '.join(faults) or 'ok'}, {took:.1f} s", flush=True)
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    failures = FAILURES_OF_GPUS if options.cuda else FAILURES
    option, ending = launcher()
    if option is None:
        print("needs the mpirun of OpenMPI or MPICH")
        return 77
    random.seed(options.seed)
    good = True
    for i in range(options.runs):
        failure, rank, step = failures[i % len(failures)], random.randrange(options.ranks), random.randrange(STEPS)
        good &= run(option, failure in ending, options.program, options.ranks, failure, rank, step, options.cuda)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

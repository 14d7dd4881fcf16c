#!/usr/bin/env python3
"""Compares what nn::fit chooses with the best choice that an exact solver finds.

usage: plans.py PROGRAM [--nets NET...] [--budgets PERCENT...] [--measure [--steps N]] [--tries N] [--at-most RATIO]

PROGRAM is build/release/bench/plans. A budget is a share of the activations: of the bytes that a step saves for backward.
An option is a module that is checkpointed, or that recomputes cheap results. The best choice is the set of options that adds
the least time, among all sets that fit. No module is inside another one of the same kind. HiGHS (PyPI: highspy) proposes
sets, the fastest first, and memory::predict says which one fits. Times of options are in plans_times.json, which --measure
writes. Exits with 1 if a choice of nn::fit makes a step slower than the best one by more than RATIO, misses a choice that
fits, or takes more than 10 s of processor time. If the solver gives up, its last proposal is a lower bound of the best time. RATIO is then
larger by 0.02. Exits with 77 without HiGHS.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

NETS = ("chain", "resnet18", "unet", "transformer4", "transformer12")
BUDGETS = (90, 75, 60, 45, 30)
PLAN_SECONDS = 10
UNPROVEN = 0.02  # added to RATIO if only a lower bound of the best time is known
TIMES = pathlib.Path(__file__).resolve().parent / "plans_times.json"


class Program:
    """The program's answers about one network."""

    def __init__(self, program, net, steps=0):
        command = [program, "--net", net, "--steps", str(steps), "--threads", "2"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts = self.read()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.read()

    def fits(self, limit, options):
        """Whether the options are enough, and the peak of allocated bytes."""
        answer = self.ask("fits", limit, *options)
        return answer["fits"], answer["peak"]


def contains(outer, inner):
    return not outer or inner == outer or inner.startswith(outer + ".")


def overlap(a, b):
    """Whether the options are of one kind, and one module is in the other."""
    (kind, path), (other, place) = a.split(":"), b.split(":")
    return kind == other and (contains(path, place) or contains(place, path))


def model_of(options, times, missing):
    """The choices whose options save at least the missing bytes, and their variables."""
    import highspy

    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    x = [model.addBinary(obj=times[a["option"]]) for a in options]
    for i, a in enumerate(options):
        for j in range(i):
            if overlap(a["option"], options[j]["option"]):
                model.addConstr(x[i] + x[j] <= 1)
    model.addConstr(sum(a["saves"] / 2**20 * v for a, v in zip(options, x)) >= missing / 2**20)
    return model, x


def best_choice(program, times, limit, most_tries):
    """(ms, options): the best choice. After too many tries, the least time that it can take, and None. (None, None) if no
    choice fits. If a set does not fit, other options must save the bytes that are missing. So it is assumed that fewer options
    do not need less memory, and that no option lowers a peak by more bytes than it saves alone."""
    import highspy

    options = [a for a in program.facts["options"] if a["option"] in times]
    model, x = model_of(options, times, program.facts["peak"] - limit)
    for _ in range(most_tries):
        model.run()
        if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None, None
        chosen = [round(model.val(v)) for v in x]
        best = [a["option"] for a, c in zip(options, chosen) if c]
        ms = sum(times[option] for option in best)
        fits, peak = program.fits(limit, best)
        if fits:
            return ms, best
        others = [(a["saves"], v) for a, v, c in zip(options, x, chosen) if not c]
        if not others:
            return None, None
        model.addConstr(sum(saves / 2**20 * v for saves, v in others) >= max(peak - limit, 512) / 2**20)
    return ms, None


def compare(program, times, budget, most_tries):
    facts = program.facts
    limit = int(facts["peak"] - facts["saved"] * (1 - budget / 100)) // 512 * 512
    ours = program.ask("fit", limit)
    began = time.monotonic()
    best_ms, best = best_choice(program, times, limit, most_tries)
    row = {"net": facts["net"], "budget": budget, "plan_s": round(ours["seconds"], 2),
           "solver_s": round(time.monotonic() - began, 1), "fits": ours["fits"], "best_fits": best is not None}
    if best_ms is None or not ours["fits"]:
        return {**row, "proven": best_ms is None or best is not None}
    ms, step = sum(times[option] for option in ours["options"]), times["step"]
    return {**row, "proven": best is not None, "more_time": round(ms / step, 4), "best_more_time": round(best_ms / step, 4),
            "ratio": round((step + ms) / (step + best_ms), 4), "ours": ours["options"], "best": best}


def measure(program, nets, steps):
    times = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    times.update({net: Program(program, net, steps).facts["times"] for net in nets})
    TIMES.write_text(json.dumps({net: {option: round(ms, 3) for option, ms in of.items()} for net, of in times.items()}, indent=1)
                     + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS)
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--measure", action="store_true", help="measure the times of options first")
    parser.add_argument("--steps", type=int, default=5, help="measured steps, of which the median counts")
    parser.add_argument("--tries", type=int, default=300, help="sets of the solver that are tried, at most")
    parser.add_argument("--at-most", type=float, default=1.03)
    arguments = parser.parse_args()
    try:
        import highspy  # noqa: F401
    except ImportError:
        print("skipped: there is no highspy here: python3 -m pip install highspy")
        sys.exit(77)
    if arguments.measure:
        measure(arguments.program, arguments.nets, arguments.steps)
    all_times = json.loads(TIMES.read_text())
    failed = False
    for net in arguments.nets:
        program = Program(arguments.program, net)
        for budget in arguments.budgets:
            row = compare(program, all_times[net], budget, arguments.tries)
            print(json.dumps(row), flush=True)
            failed |= row.get("ratio", 1) > arguments.at_most + (0 if row["proven"] else UNPROVEN)
            failed |= row["plan_s"] > PLAN_SECONDS
            failed |= row["best_fits"] and not row["fits"]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

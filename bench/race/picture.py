#!/usr/bin/env python3
"""Draws the test accuracy of races against time, from the results of examples/cifar10 --race --json.

usage: bench/race/picture.py [NAME=]RESULTS.json... PICTURE.png

Each file is a colour, and the legend has its name. A point is the mean over the runs after an epoch, with a bar of one
standard deviation. The cross is the final test, of several views of each image.
"""
import json
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def spread(values):
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def draw(axes, argument):
    name, _, file = ("", "", argument) if pathlib.Path(argument).exists() else argument.partition("=")
    path = pathlib.Path(file)
    results = json.loads(path.read_text())
    runs = results["runs"]
    epochs = [[run["epochs"][i] for run in runs] for i in range(results["epochs"])]
    seconds = [spread([e["seconds"] for e in epoch])[0] for epoch in epochs]
    accuracies = [spread([100 * e["test_accuracy"] for e in epoch]) for epoch in epochs]
    label = f"{name or path.stem}: {results['worker']}, {len(runs)} runs"
    bars = axes.errorbar(seconds, [a for a, _ in accuracies], [d for _, d in accuracies], marker="o", capsize=3, label=label)
    time, accuracy = spread([run["seconds"] for run in runs]), spread([100 * run["test_accuracy"] for run in runs])
    axes.errorbar([time[0]], [accuracy[0]], [accuracy[1]], marker="x", markersize=9, markeredgewidth=2, capsize=3, color=bars[0].get_color())
    print(f"{path}: {accuracy[0]:.2f} % (standard deviation {accuracy[1]:.2f}) in {time[0]:.3f} s ({time[1]:.3f})")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *results, picture = sys.argv[1:]
    figure, axes = plt.subplots(figsize=(7, 4.5), dpi=150)
    for argument in results:
        draw(axes, argument)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("test accuracy, %")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(picture)


if __name__ == "__main__":
    main()

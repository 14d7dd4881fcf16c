#!/usr/bin/env python3
"""Prints for each benchmark in a file of JSON lines the line with the median time. usage: medians.py FILE"""
import json
import statistics
import sys

rows = {}
with open(sys.argv[1]) as f:
    for line in filter(str.strip, f):
        row = json.loads(line)
        rows.setdefault(tuple(row.get(k) for k in ('workload', 'name', 'mode', 'device')), []).append(row)
for repeats in rows.values():
    times = [row.get('ms_per_step', row.get('ns', 0)) for row in repeats]
    print(json.dumps(repeats[times.index(statistics.median_low(times))]))

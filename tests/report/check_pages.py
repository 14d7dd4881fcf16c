#!/usr/bin/env python3
"""Opens memory reports in a headless browser: they draw, without an error or a word to the network; the numbers in them
are those of C++; nothing overlaps; a million events load in under two seconds of the page's own, and zoom smoothly.

usage: check_pages.py PROGRAM [--browser chromium|firefox] [--screenshots FOLDER]

PROGRAM writes the pages (pages.cpp). Exits with 77 where there is no such browser.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import browser

WIDTHS = (1280, 2560, 700)
TABS = ("modules", "phases", "saved", "reserved", "whole", "times", "steps", "runs")
LOAD_SECONDS = 2
TURNS, TURN_SECONDS = 30, 0.1


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: found {found}, expected {expected}")


def tab(page, name):
    page.evaluate(f"document.getElementById('tab-{name}').click()")
    page.settle()


def bytes_in(page, selector):
    """The sizes in the elements that match, as whole numbers."""
    return page.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => Number(e.dataset.bytes))")


def texts(page, selector):
    return page.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")


def check_formats(page, expected):
    found = page.evaluate(f"Object.fromEntries({json.dumps(list(expected))}.map((b) => [b, formatBytes(Number(b))]))")
    equal(found, expected, "sizes as text")


def check_peak(page, peak):
    """The figures on top, and the levels beside the timeline, whose cursor begins at the peak."""
    allocated, largest, _, rounding = bytes_in(page, "#facts .bytes")[:4]
    equal(allocated, peak["allocated"], "peak allocated")
    equal(texts(page, "#facts .note")[0], peak["when"], "when the peak was")
    equal(rounding, peak["allocated"] - peak["requested"], "rounding at the peak")
    equal(0 < largest <= allocated, True, f"bytes of the largest holder at the peak: {largest}")
    equal(bytes_in(page, ".legend .bytes")[:2], [peak["reserved"], peak["allocated"]], "levels at the peak")
    roles = dict(zip(texts(page, ".legend tr td:first-child")[2:], bytes_in(page, ".legend .bytes")[2:]))
    equal(roles, peak["roles"], "roles at the peak")
    dim = page.evaluate("""[...document.querySelectorAll('.legend tr')].map((row) =>
      Number(getComputedStyle(row).opacity) < 0.7)""")[2:]
    equal(dim, [size == 0 for size in bytes_in(page, ".legend .bytes")[2:]], "roles that are dim, because they are empty")


def check_opening(page):
    """The page opens on the step of the peak with its neighbours, and on who holds it: the ten largest, the largest first."""
    equal(page.evaluate("app.tab"), "modules", "the view that opens")
    steps = page.evaluate("currentDevice().steps.map((s) => [s.begin, s.end])")
    peak = page.evaluate("app.cursor")
    at = next(s for s, (begin, end) in enumerate(steps) if begin <= peak <= end)
    window = [steps[max(0, at - 1)][0], steps[min(len(steps) - 1, at + 1)][1] + 1]
    equal(page.evaluate("app.timeline.eventsInView()"), window, "the events in view")
    rows = bytes_in(page, ".holders tbody .bytes")
    equal(rows, sorted(rows, reverse=True)[:10], "bytes of the largest holders")
    page.evaluate("document.querySelector('.holders .more').click()")
    equal(sum(bytes_in(page, ".holders tbody .bytes")), page.evaluate("currentDevice().history.allocated[app.cursor]"),
          "bytes of all holders")
    widths = page.evaluate("[...document.querySelectorAll('.holders .bar-lane i')].map((i) => parseFloat(i.style.width))")
    equal(abs(widths[0] - 100 * rows[0] / page.evaluate("currentDevice().history.allocated[app.cursor]")) < 0.01, True,
          f"the first bar is to the scale of the peak: {widths[0]} %")
    page.evaluate("document.activeElement.blur()")
    page.key("i")
    equal(page.evaluate("document.querySelectorAll('#about .swatch').length"), page.evaluate("ROLE_COUNT"), "colours explained")
    equal([t for t in texts(page, "#about dd") if not t or t == "undefined"], [], "explanations that are missing")
    page.key("i")
    equal(page.evaluate("document.getElementById('about') === null"), True, "i closes it")


def check_first_screen(page, *selectors):
    """A small window shows the peak, its largest holder and the first advice before any click."""
    page.size(WIDTHS[0], 720)
    page.settle()
    for selector in ("#facts .bytes", "#facts .fact:nth-child(2) .bytes", *selectors):
        box = page.evaluate(f"(({{ top, bottom, height }}) => [top, bottom, height])"
                            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        equal(box[0] >= 0 and box[1] <= 720 and box[2] > 0, True, f"{selector} is on the first screen: {box}")
    page.size(WIDTHS[0], 1400)


def check_place(page, path):
    """The address names view, step and event, and opens there."""
    page.evaluate("show({ cursor: currentDevice().steps[1].begin + 3 })")
    tab(page, "saved")
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    place = page.evaluate("location.hash")
    cursor = page.evaluate("app.cursor")
    equal(place.startswith(f"#view=saved&step=2&event={cursor}"), True, f"the address: {place}")
    window = page.evaluate("app.timeline.eventsInView()")
    page.open(path, place)
    equal(page.evaluate("[app.tab, app.cursor, app.timeline.eventsInView()]"), ["saved", cursor, window], "what it opens")
    page.open(path, "#event=")
    equal(page.evaluate("app.cursor === currentDevice().history.peak"), True, "an event without a number is none")
    page.open(path, "#view=nothing&event=-5&from=7&to=3&run=9&device=tpu&axis=up")
    equal(page.evaluate("[app.tab, app.axis, app.cursor === currentDevice().history.peak]"), ["modules", "event", True],
          "a wrong address opens as none")
    page.open(path, "#step=3")
    equal(page.evaluate("currentDevice().events.step[app.cursor]"), 3, "a step alone")


def check_out_of_memory(page, failure):
    """The banner says what the exception said; the cursor stands on the request, and there is a line of code to copy."""
    equal(page.evaluate("currentDevice().events.kind[app.cursor] === KIND.outOfMemory"), True, "the cursor is at the request")
    allocated, pieces, unreserved, limit, missing, fits = bytes_in(page, "#banner .bytes")
    equal([limit, allocated, missing, fits], [failure[f] for f in ("limit", "allocated", "missing", "fits")], "the banner")
    equal(allocated + pieces + unreserved, limit, "the sum of the banner's figures")
    equal(pieces, failure["reserved"] - failure["allocated"], "free pieces")
    said = failure["what"].split(" in step")[0]  # out of memory on cpu: 5.00 MiB (... bytes) requested by linear in module 'x'
    module = said.split(" in module '")[1].split("'")[0]
    for word in (said.split(": ")[1].split(" (")[0], said.split(" by ")[1].split(" in ")[0], module):
        equal(word in texts(page, "#banner h2")[0], True, f"the banner says {word}")
    verdict = texts(page, "#banner p")[0].split(". ")[0]
    equal(verdict[0].lower() + verdict[1:] in failure["what"], True, f"the verdict is the exception's: {verdict}")
    advice = texts(page, ".advice li")[0]
    equal(advice.startswith("checkpoint "), True, f"advice: {advice}")
    equal("the step's peak is " in advice or "it still lacks " in advice, True, f"what the advice leads to: {advice}")
    equal(texts(page, "#banner button"), [], "a button to where the cursor is")
    equal(texts(page, ".advice code")[0].startswith('nn::checkpoint_modules(model, {"'), True, "code to copy")
    first, end = page.evaluate("app.timeline.eventsInView()")
    equal(page.evaluate("currentDevice().events.step[app.cursor]"), 3, "the failing step")
    equal(first < page.evaluate("app.cursor") < end < page.evaluate("currentDevice().count"), True, "the request is near the right")


def check_microbatches(page):
    """Four forwards and backwards of a step are one bar each."""
    tab(page, "phases")
    labels = texts(page, ".phase-labels span")
    equal(labels[-4:], ["zero_grad", "forward, the highest of 4", "backward, the highest of 4", "optimizer step"], "stages")
    tab(page, "saved")
    equal("×4" in texts(page, ".saved .times"), True, "equal rows are folded")


def check_modules(page, peak):
    tab(page, "modules")
    rows = page.evaluate("""[...document.querySelectorAll('[data-module]:not(.op)')].map((row) =>
      [row.dataset.module, Number(row.querySelector('.bytes').dataset.bytes)])""")
    for path, found in rows:
        name = path.lstrip(".")
        below = [b for m, b in peak["modules"].items() if m == name or m.startswith(name + ".")]
        outside = peak["modules"].get("", 0)
        expected = {"all": peak["allocated"], "(outside modules)": outside}.get(name, sum(below))
        equal(found, expected, f"bytes of {path}")
    equal(len(rows) > 6, True, "a row for every module")


def check_phases(page, levels):
    tab(page, "phases")
    bars = page.evaluate("""[...document.querySelectorAll('.phase-bar')].map((bar) =>
      [bar.dataset.stage, Number(bar.dataset.event), Number(bar.querySelector('.bytes').dataset.bytes)])""")
    for stage, event, found in bars:
        equal(found, levels[event], f"bytes after {stage}")
    once = ["zero_grad", "forward", "backward", "optimizer step"]
    equal([b[0] for b in bars], ["model built"] + 3 * once, "stages")


def check_saved(page):
    tab(page, "saved")
    held = texts(page, ".saved tbody td:nth-child(4)")
    equal("relu in first, linear in first.down" in held, True, "a relu is held by itself and the layer after it")
    equal(all(t != "not released" for t in texts(page, ".saved tbody td:nth-child(5)")), True, "backward lets all go")


def check_edges(page):
    """A constant is kept in each step for that step; the last event has its place by time too; focus stays."""
    tab(page, "saved")
    rows = page.evaluate(
        "currentDevice().steps.map((s) => savedDuring(currentDevice(), s).map((r) => [s.begin, r.from, r.to, s.end]))"
    )
    equal(len(rows) >= 3 and all(rows[-3:]), True, "something is kept in each step")
    for begin, first, last, end in sum(rows, []):
        equal(begin <= first <= last <= end, True, f"{first} to {last} within the step {begin} to {end}")
    page.evaluate("show({ axis: 'time' })")
    page.settle()
    last = "currentDevice().count - 1"
    equal(page.evaluate(f"app.timeline.eventAt(app.timeline.whole[1]) === {last}"), True, "the last event is reached")
    equal(page.evaluate(f"app.timeline.placeOf({last}) < app.timeline.whole[1]"), True, "the last event has a place")
    page.evaluate("document.querySelector('#view select').focus()")
    page.evaluate("document.querySelector('#view select').dispatchEvent(new Event('change'))")
    page.settle()
    equal(page.evaluate("document.activeElement.tagName"), "SELECT", "what has the focus")
    tab(page, "runs")
    equal("are equal" in texts(page, ".verdict")[0], True, "a run that began within a step, beside itself")


def check_limits(page, expected):
    """A limit that is set while the recording runs is drawn from there on, and in the figures."""
    page.settle()
    page.key("0")
    limits = page.evaluate("app.timeline && limitsIn(currentDevice(), app.timeline.columns).map((l) => l.limit)")
    equal(limits[-2:], expected["limits"], "limits that are drawn")
    equal(len(limits) - len(set(limits)), 0, "each has one stretch")
    equal(texts(page, "#facts .note")[2], f"limit {expected['limit_at_peak']} then", "limit at the peak")
    equal(page.evaluate("app.timeline.y.domain()[1]") > limits[-2], True, "a limit a little above what is reserved is in view")
    stretches = page.evaluate("limitsIn(currentDevice(), app.timeline.columns)")
    begins = page.evaluate("app.timeline.x(currentDevice().steps[2].begin)")
    equal(abs(stretches[-1]["x"] - begins) < 3, True, f"the lower one begins with the third step, at {begins}: {stretches}")


def check_books(page):
    """What ledgers cannot know is not shown: times, who freed a block, who kept it for backward."""
    equal(texts(page, ".warning")[0].startswith("This report comes from the ledgers' logs. They do not have times"), True,
          "a warning")
    equal(page.evaluate("document.getElementById('axis').hidden"), True, "there is no axis of time")
    equal(texts(page, "#advice > p"), ["None: the ledgers' logs do not have the ops that save tensors. A memory::Recording has."],
          "why there is no advice")
    shows = lambda text: text in page.evaluate("document.body.innerText")
    for unit in ("ns", "µs", "ms"):
        equal(f"\u00a0{unit}" in page.evaluate("document.getElementById('inspector').innerText"), False, f"a time in {unit}")
    tab(page, "saved")
    equal(shows("held by backward of") or shows("released by"), False, "who kept a tensor")
    equal(len(texts(page, ".saved tbody tr")) > 4, True, "rows of what was kept")
    page.evaluate("document.querySelector('.saved tbody tr').click()")
    page.settle()
    equal("freed by" in texts(page, ".block dt") or "saved for" in texts(page, ".block dt"), False, "who freed a block")
    equal("freed" in texts(page, ".block dt"), True, "when it was freed")
    written = written_when_near(page)
    equal("only a recording says which module ran" in written, True, "what stands in place of modules")
    equal([t for t in written if "stem" in t], [], "modules that ran")


WRITTEN = """(() => {
  const { fillText } = CanvasRenderingContext2D.prototype;
  const written = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    written.push(text);
    fillText.call(this, text, ...place);
  };
  app.timeline.draw();
  CanvasRenderingContext2D.prototype.fillText = fillText;
  return written;
})()"""


def written_when_near(page):
    """What is written in the picture of the few events around the peak."""
    page.evaluate("document.activeElement.blur()")
    for key in ("p", "+", "+", "+", "+", "+"):
        page.key(key)
    page.settle()
    return page.evaluate(WRITTEN)


def check_beside_books(page):
    """Who looks at a recording by time looks at the ledgers' log beside it by event."""
    equal("stem" in written_when_near(page), True, "a recording names the modules that ran")
    page.evaluate("show({ axis: 'time' })")
    page.settle()
    page.evaluate("showRun(1)")
    page.settle()
    equal(page.evaluate("[app.axis, app.timeline.byTime]"), ["event", False], "the axis of the ledgers' log")
    equal(page.evaluate("document.getElementById('axis').hidden"), True, "there is no axis of time")
    page.evaluate("showRun(0)")
    page.settle()
    equal(page.evaluate("document.getElementById('axis').hidden"), False, "there is one again")


def check_bill(page):
    """Lines add up to the total, which is what is reserved and what lies outside."""
    tab(page, "whole")
    *lines, total = bytes_in(page, ".waterfall .bytes")
    equal(sum(lines), total, "lines of the bill")
    outside = page.evaluate("currentDevice().header.outside")
    reserved = bytes_in(page, ".legend .bytes")[0]
    equal(total, reserved + outside, "total of the bill")
    page.evaluate("Object.assign(currentDevice().header, { outside: 5000, others: 2000 }), redrawTab()")
    *lines, total = bytes_in(page, ".waterfall .bytes")
    equal((lines[-2:], total), ([3000, 2000], reserved + 5000), "context and libraries, other processes, and the total")
    name = page.evaluate("currentDevice().header.name")
    page.evaluate("Object.assign(currentDevice().header, { external: 700 }), redrawTab()")
    *_, total = bytes_in(page, ".waterfall .bytes")
    equal((name, total), ("cpu", reserved + 5000), "external memory of the host is a part of what lies outside")
    page.evaluate("Object.assign(currentDevice().header, { name: 'cuda:0' }), redrawTab()")
    *lines, total = bytes_in(page, ".waterfall .bytes")
    equal((lines[-3:], total), ([700, 3000, 2000], reserved + 5700), "external memory of a GPU, and the total with it")
    page.evaluate("Object.assign(currentDevice().header, { name: 'cpu' }), redrawTab()")


def check_segments(page):
    tab(page, "reserved")
    *parts, reserved = bytes_in(page, ".split .bytes")
    equal(sum(parts), reserved, "parts of what is reserved")


ROWS = """currentDevice().steps.map((s) => ({
  step: s.number, time: timeOfStep(currentDevice(), s), device: deviceTimeOf(currentDevice(), s),
  rows: stepTimes(currentDevice(), s).map((r) => [currentDevice().names[r.module], currentDevice().names[r.op],
    report.phases[r.phase], r.calls, r.time, r.deviceTime, r.flop, r.bytes, r.least]) }))"""

WORK = ["FLOP", "bytes", "FLOP/s", "bytes/s", "roofline"]


def check_times(page, expected):
    """Times of ops are those of C++, and add up to the step."""
    found = page.evaluate(ROWS)
    for step in found + expected:
        step["rows"].sort()
        equal(sum(row[4] for row in step["rows"]), step["time"], f"the sum of the times of step {step['step']}")
        busy = step["device"]["busy"] if step["device"] else 0
        equal(sum(row[5] for row in step["rows"]), busy, f"the sum of the device's times of step {step['step']}")
    equal(found, expected, "where the time of each step went")
    equal(min(sum(row[i] for row in step["rows"]) > 0 for step in expected[1:] for i in (6, 7, 8)), True, "work is counted")
    tab(page, "times")
    median = statistics.median(step["time"] for step in expected[1:])
    equal(page.evaluate("medianTime(currentDevice())"), median, "the median of the steps after the first")
    check_work(page, expected)
    for by in (1, 2, 3):
        page.evaluate(f"document.querySelector('#view .choice button:nth-child({by})').click()")
        *rows, whole = page.evaluate("[...document.querySelectorAll('.times .time')].map((e) => Number(e.dataset.ns))")
        equal(rows, sorted(rows, reverse=True), "times, the longest first")
        equal(page.evaluate("document.querySelector('.times .more') === null") and sum(rows) != whole, False, "sum of all rows")
    page.evaluate("goToStep(currentDevice(), currentDevice().steps[1]), setTimes({ beside: 2, by: 'op' })")
    page.settle()
    names = texts(page, ".times th")
    equal(names[3:6], ["time", "step 3", "change"], "columns of two steps")
    last = page.evaluate("[...document.querySelectorAll('.times .total .time')].map((e) => Number(e.dataset.ns))")
    equal(last, [next(s["time"] for s in expected if s["step"] == n) for n in (2, 3)], "times of two steps")
    page.evaluate("setTimes({ beside: null })")
    page.key("p")


def check_work(page, expected):
    """The columns of work are C++'s counts, and their rates are those of the times beside them."""
    page.evaluate("goToStep(currentDevice(), currentDevice().steps[1]), setTimes({ by: 'call', all: true, beside: null })")
    page.settle()
    step = next(s for s in expected if s["step"] == 2)
    equal(texts(page, ".times th"), ["op", "phase", "calls", "time", "share"] + WORK + [""], "columns with work")
    flop, moved, flop_rate, byte_rate = page.evaluate("""d3.transpose([...document.querySelectorAll('.times .total')].map((row) =>
      [...row.querySelectorAll('.decimal')].map((e) => Number(e.dataset.value))))""")
    equal(flop + moved, [sum(row[i] for row in step["rows"]) for i in (6, 7)], "the work of a step")
    equal([abs(a / b - 1) < 1e-9 for a, b in ((flop_rate[0], 1e9 * flop[0] / step["time"]), (byte_rate[0], 1e9 * moved[0] / step["time"]))],
          [True, True], "the rates of a step")
    rows = page.evaluate("""[...document.querySelectorAll('.times tbody tr')].map((row) =>
      [row.children[0].textContent, row.children[9].textContent])""")
    least = 100 * sum(row[8] for row in step["rows"]) / step["time"]
    shown = float(rows[-1][1].removeprefix("<").removesuffix(" %"))
    equal(abs(shown - least) <= (1 if rows[-1][1].startswith("<") else 0.51), True, f"the share of the roofline: {rows[-1]} for {least}")
    page.evaluate("document.querySelectorAll('.times th button')[5].click()")
    page.settle()
    values = page.evaluate("""[...document.querySelectorAll('.times tbody tr:not(.total)')].map((row) =>
      Number(row.querySelectorAll('.decimal')[0].dataset.value))""")
    equal(values, sorted(values, reverse=True), "the most FLOP first")
    equal(page.evaluate("[0, 7, 999, 1000, 1234567, 9994e6, 99.96e9, 2e21].map(formatDecimal)"),
          ["", "7", "999", "1.00 k", "1.23 M", "9.99 G", "100 G", "2000 E"], "decimal numbers")
    page.evaluate("setTimes({ sort: { by: 'most', reversed: false }, all: false })")


def cells(page, selector):
    """The texts of the cells of each row that matches."""
    return page.evaluate(f"""[...document.querySelectorAll({json.dumps(selector)})].map((row) =>
      [...row.children].map((cell) => cell.querySelector('.time') ? Number(cell.querySelector('.time').dataset.ns) :
        cell.textContent))""")


def mean_work(steps):
    """The mean FLOP and bytes of steps."""
    return [round(sum(row[column] for step in steps for row in step["rows"]) / len(steps)) for column in (6, 7)]


def check_work_of_runs(page, expected):
    """Two runs of one net with other optimizers: equal FLOP, once, and the bytes of both."""
    (flop, before), (same_flop, after) = expected
    equal(flop, same_flop, "the FLOP of two runs")
    equal(texts(page, ".run-times th")[-2:], ["FLOP", "bytes"], "the columns of work of two runs")
    shown = page.evaluate("[...document.querySelectorAll('.run-times .total .decimal')].map((d) => Number(d.dataset.value))")
    equal(shown, [flop, before, after], "the work of two runs")


def check_device_times(page, expected):
    """The columns of the device are C++'s: rows and gaps add up to the span. Steps without them have no such columns."""
    found = page.evaluate(ROWS)
    for step in found + expected:
        step["rows"].sort()
        busy = step["device"]["busy"] if step["device"] else 0
        equal(sum(row[5] for row in step["rows"]), busy, f"the sum of the device's times of step {step['step']}")
    equal(found, expected, "where the device's time of each step went")
    second, third, fourth = (next(s for s in expected if s["step"] == n) for n in (2, 3, 4))
    tab(page, "times")
    page.evaluate("goToStep(currentDevice(), currentDevice().steps[1]), setTimes({ by: 'op', all: true, beside: null })")
    page.settle()
    equal(texts(page, ".times th"), ["op", "phase", "calls", "host", "device", "share"] + WORK + [""], "columns with a device")
    *rows, idle, total = cells(page, ".times tbody tr")
    device = [row[4] for row in rows]
    equal(device, sorted(device, reverse=True), "the device's times, the longest first")
    equal(sum(device), second["device"]["busy"], "the sum of the device's times")
    equal((idle[0], idle[4]), ("device idle", second["device"]["idle"]), "the device's gaps")
    equal((total[3], total[4]), (second["time"], second["device"]["span"]), "the step on the host and the device")
    page.evaluate("document.querySelectorAll('.times th button')[3].click()")
    page.settle()
    host = [row[3] for row in cells(page, ".times tbody tr")[:-2]]
    equal(host, sorted(host, reverse=True), "the host's times, the longest first")
    page.evaluate("setTimes({ beside: 3, sort: { by: 'most', reversed: false } })")
    page.settle()
    equal(texts(page, ".times th"), ["op", "phase", "calls", "host", "device", "step 4", "change", "share", ""],
          "columns of two steps with a device")
    equal(cells(page, ".times .total")[0][4:6], [s["device"]["span"] for s in (second, fourth)], "the device's spans")
    page.evaluate("setTimes({ beside: 2 })")
    page.settle()
    equal(texts(page, ".times th"), ["op", "phase", "calls", "host", "step 3", "change", "device", "share", ""],
          "columns beside a step without a device")
    equal(cells(page, ".times .total")[0][3:5], [s["time"] for s in (second, third)], "the host's times")
    notes = " ".join(texts(page, "#view .heading .note"))
    equal("2 steps with device times: " in notes and "of the device, busy for " in notes, True, f"notes: {notes}")
    equal(" of the host at the median, " in notes and notes.endswith(" without"), True, f"the cost of timing: {notes}")
    equal("2, with device times" in texts(page, "#view option"), True, "steps with device times are marked")
    page.evaluate("goToStep(currentDevice(), currentDevice().steps[2]), setTimes({ beside: null })")
    page.settle()
    equal(texts(page, ".times th"), ["op", "phase", "calls", "time", "share"] + WORK + [""], "columns without a device")
    page.evaluate("setTimes({ sort: { by: 'most', reversed: false } }), goToStep(currentDevice(), currentDevice().steps[1])")
    page.settle()
    device = [row[4] for row in cells(page, ".times tbody tr")[:-2]]
    equal(device, sorted(device, reverse=True), "the first look at a step with device times is sorted by the device's")


def check_lanes(page):
    """Each stream has a lane of its kernels below the flame chart, and the pointer names one."""
    page.evaluate("goToStep(currentDevice(), currentDevice().steps[1]), showAxis('time')")
    page.settle()
    bands = page.evaluate("bandsOf(currentDevice(), true).map((b) => bandName(b))")
    equal(bands[-3:], ["op", "stream 7", "stream 13"], "lanes of streams")
    page.evaluate("""globalThis.crowd = new DeviceWork({ elapsed: [0, 10, 10, 0, 0, 0], time: [30, 5, 15, 1, 1, 1],
      device: [0, 0, 0, 0, 1, 1], stream: [7, 7, 7, 8, 7, 9] }, [{ name: "cuda" }, { name: "cuda:1" }])""")
    lanes = page.evaluate("crowd.streams.map((l) => [l.name, l.rows.length])")
    equal(lanes, [["cuda 7", 1], ["", 2], ["cuda 8", 1], ["cuda:1 7", 1], ["cuda:1 9", 1]], "lanes of work that overlaps")
    at = page.evaluate("[0, 1].map((l) => [12, 22].map((t) => workAt({ work: crowd }, crowd.streams[l], t)))")
    equal(at, [[1, 1], [2, 3]], "no lane has gaps in which it works")
    equal(page.evaluate("lanesOf({ work: crowd }).at(-1).title"), "1 more stream", "streams that are not shown")
    work = "currentDevice().work"
    longest = page.evaluate(f"d3.greatest({work}.streams[0].rows, (i) => {work}.time[i])")
    page.evaluate(f"app.timeline.showWindow([{work}.begin[{longest}] - 1e5, {work}.end[{longest}] + 1e5])")
    page.settle()
    x, y = corner(page, "rect.surface")
    at = page.evaluate(f"app.timeline.x(({work}.begin[{longest}] + {work}.end[{longest}]) / 2)")
    page.move(x + at, y + page.evaluate(f"PLOT_HEIGHT + 6 + {len(bands) - 1.5} * (BAND_HEIGHT + BAND_GAP)"))
    equal(texts(page, ".block h2"), [page.evaluate(f"nameOfWork(currentDevice(), {longest})")], "the kernel under the pointer")
    equal(page.evaluate("Number(document.querySelector('.block .time').dataset.ns)"), page.evaluate(f"{work}.time[{longest}]"),
          "its time")
    equal(page.evaluate(f"currentDevice().names[{work}.op[{longest}]]") in texts(page, ".block dd"), True, "its op")
    page.evaluate("document.activeElement.blur()")
    page.key("0")
    page.evaluate("show({ axis: 'event', hovered: null })")
    page.settle()


def check_flame(page):
    """By time, the bands show levels of modules, and ops; the pointer names one and its time."""
    page.evaluate("show({ axis: 'time' })")
    page.settle()
    bands = page.evaluate("bandsOf(currentDevice(), true)")
    equal(bands, ["step", "phase", {"level": 0}, {"level": 1}, "op"], "bands by time")
    longest = page.evaluate("""(() => {
      const { scopes } = currentDevice();
      const longest = d3.greatest(d3.range(scopes.time.length - 1), (s) => scopes.op[s] ? scopes.time[s + 1] - scopes.time[s] : 0);
      app.timeline.showWindow([scopes.time[longest] - 1e5, scopes.time[longest + 1] + 1e5]);
      return [longest, currentDevice().names[scopes.op[longest]]];
    })()""")
    page.settle()
    x, y = corner(page, "rect.surface")
    at = page.evaluate(f"app.timeline.x((currentDevice().scopes.time[{longest[0]}] + currentDevice().scopes.time[{longest[0]} + 1]) / 2)")
    page.move(x + at, y + page.evaluate("PLOT_HEIGHT + 6 + 4.5 * (BAND_HEIGHT + BAND_GAP)"))
    equal(texts(page, ".block h2"), [longest[1]], "the op under the pointer")
    equal(page.evaluate("Number(document.querySelector('.block .time').dataset.ns) > 0"), True, "its time")
    page.evaluate("document.activeElement.blur()")
    page.key("0")
    page.evaluate("show({ axis: 'event', hovered: null })")
    page.settle()


def check_steps(page, ends):
    tab(page, "steps")
    found = page.evaluate("Number(document.querySelector('.verdict').dataset.change)")
    equal(found, ends[-1] - ends[1], "change from the second step to the last")
    new = [texts(page, f".new-blocks tbody td:nth-child({column})") for column in (1, 2)]
    equal(dict(zip(*new))["f32"], str(len(ends) - 2), "losses that are new, one a step")


SPAN = "app.timeline.window[1] - app.timeline.window[0]"


def corner(page, selector):
    return page.evaluate(f"(({{x, y}}) => [x, y])(document.querySelector('{selector}').getBoundingClientRect())")


def check_keys(page):
    """The keyboard moves the cursor and zooms."""
    page.evaluate("document.activeElement.blur()")  # as a page that was just opened has it
    page.key("0")
    peak = page.evaluate("app.cursor")
    page.key("ArrowRight")
    equal(page.evaluate("app.cursor"), peak + 1, "cursor after →")
    page.key("p")
    equal(page.evaluate("app.cursor"), peak, "cursor after p")
    whole = page.evaluate(SPAN)
    page.key("+")
    equal(round(page.evaluate(SPAN) * 2), whole, "window after +")
    for _ in range(8):
        page.key("+")
    page.key("End")
    equal(page.evaluate("app.timeline.window[1] <= app.timeline.whole[1]"), True, "nothing is shown behind the end")
    page.key("ArrowUp")
    page.key("0")
    equal(page.evaluate(SPAN), whole, "window after 0")
    equal(page.evaluate("app.timeline.lift"), {"from": 0, "share": 1}, "height after 0")
    page.evaluate("document.getElementById('plot').focus()")
    page.key("Tab")
    equal(page.evaluate("document.activeElement.id"), f"tab-{page.evaluate('app.tab')}", "what Tab goes to")


def check_pointer(page):
    """The pointer names a block, a click pins it; the wheel zooms, the brush chooses, both by time too."""
    x, y = corner(page, "rect.surface")
    page.move(x + 300, y + 345)
    equal(len(texts(page, ".block h2")), 1, "cards of the block under the pointer")
    page.click(x + 300, y + 345)
    equal(texts(page, ".block h2 em"), ["pinned"], "marks of a pinned block")
    page.key("Escape")
    for button in (2, 1):
        page.evaluate(f"document.querySelector('#axis button:nth-child({button})').click()")
        page.key("0")
        whole = page.evaluate(SPAN)
        page.wheel(x + 300, y + 100, -400)
        equal(page.evaluate(SPAN) < 0.8 * whole, True, "the wheel zooms")
        page.key("0")
        left, top = corner(page, ".overview .overlay")
        page.drag((left + page.evaluate("app.timeline.width"), top + 17), (left + 100, top + 17))
        share = page.evaluate(f"({SPAN}) * app.timeline.width / {whole}")
        equal(abs(share - 100) < 2, True, f"the brush leaves 100 pixels of the run (found {share})")
        page.key("0")


def check_layout(page, name):
    """Nothing is wider than the window, the picture is not blank, labels of bars do not touch."""
    for theme in ("light", "dark"):
        page.theme(theme)
        for width in WIDTHS:
            page.size(width, 1400)
            page.settle()
            for t in TABS:
                if not page.evaluate(f"document.getElementById('tab-{t}') !== null"):
                    continue
                tab(page, t)
                where = f"{name}, {t}, {width} pixels, {theme}"
                fits = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
                equal(fits, True, f"fits in width: {where}")
                equal(page.evaluate(PANEL), "beneath" if width == min(WIDTHS) else "beside", f"the panel: {where}")
                equal(page.evaluate(COLLISIONS), [], f"labels that touch: {where}")
                yield f"{name}-{t}-{width}-{theme}.png"
    equal(page.evaluate(COLORS) > 4, True, "colours in the timeline")


PANEL = """(() => {
  const [panel, plot] = ['inspector', 'plot'].map((id) => document.getElementById(id).getBoundingClientRect());
  return panel.top >= plot.bottom ? 'beneath' : panel.left >= plot.right && panel.top < plot.bottom ? 'beside' : 'over it';
})()"""

COLLISIONS = """(() => {
  const boxes = [...document.querySelectorAll('.phase-bar b, .phase-labels span, .phase-axis span, .fact, .axis text')]
    .filter((e) => e.textContent).map((e) => [e, e.getBoundingClientRect()]);
  const touch = ([, p], [, q]) => p.left < q.right - 0.5 && q.left < p.right - 0.5 && p.top < q.bottom - 0.5
    && q.top < p.bottom - 0.5;
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => touch(a, b)))
    .map(([e]) => e.textContent);
})()"""

COLORS = """(() => {
  const canvas = document.querySelector('#plot canvas');
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
})()"""


def check_large(page, path, expected):
    """Of a million events; seconds are the page's own, whatever else the machine does."""
    seconds = page.open(path)
    busy = page.busy_seconds()
    print(f"a million events are drawn after {seconds:.2f} s, of which the page took {busy:.2f}")
    equal(busy < LOAD_SECONDS, True, f"loads within {LOAD_SECONDS} s of its own")
    check_peak(page, expected)
    x, y = corner(page, "rect.surface")
    for turn in range(TURNS):
        page.wheel(x + 300, y + 100, -150 if turn < TURNS / 2 else 150)
    each = (page.busy_seconds() - busy) / TURNS
    print(f"a turn of the wheel takes it {1000 * each:.0f} ms")
    equal(each < TURN_SECONDS, True, f"a turn of the wheel within {TURN_SECONDS} s of its own")


BROKEN = """<!doctype html><html><meta charset="utf-8"><link rel="icon" href="data:,">
<img src="https://nowhere.invalid/" onerror="document.documentElement.dataset.drawn = true">
<script>
console.log("fine"), console.warn("warned"), console.error("told"), Promise.reject(Error("refused"));
throw Error("thrown");
</script>"""


def check_notices(page, folder):
    """What is wrong with a page would have been noticed."""
    path = folder / "broken.html"
    path.write_text(BROKEN)
    page.open(path)
    page.settle()
    for word in ("warned", "told", "refused", "thrown"):
        equal([word in e for e in page.errors].count(True), 1, f"errors that say {word}: {page.errors}")
    equal(len(page.errors) > 4, True, f"something went to the network: {page.errors}")
    equal([e for e in page.errors if "fine" in e], [], "errors that are none")


def check_all(page, folder, screenshots):
    expected = json.loads((folder / "expected.json").read_text())

    def layouts(name):
        for shot in check_layout(page, name):
            if screenshots:
                page.screenshot(screenshots / shot)
        page.size(WIDTHS[0], 1400)

    page.open(folder / "one.html")
    one = expected["one"]
    check_formats(page, expected["formatted"])
    check_peak(page, one["at_peak"])
    check_opening(page)
    equal(bytes_in(page, "#facts .bytes")[2], one["peak_reserved"], "peak reserved")
    check_modules(page, one["at_peak"])
    check_phases(page, one["allocated"])
    check_saved(page)
    check_bill(page)
    check_segments(page)
    check_times(page, expected["times"])
    check_flame(page)
    check_steps(page, one["step_ends"])
    check_keys(page)
    check_pointer(page)
    layouts("one")
    check_place(page, folder / "one.html")

    page.open(folder / "timed.html")
    check_device_times(page, expected["device_times"])
    check_lanes(page)
    layouts("timed")
    page.open(folder / "timed_twice.html")
    tab(page, "runs")
    equal(texts(page, ".run-times th")[0], "time of the device, a step", "the times of two runs with device times")
    spans = [s["device"]["span"] for s in expected["device_times"][1:] if s["device"]]
    whole = cells(page, ".run-times .total")[0]
    equal((whole[0], [round(ns) for ns in whole[1:3]]), ("all, with gaps", [round(sum(spans) / len(spans))] * 2),
          "the mean step of two runs, as diff has it")

    page.open(folder / "two.html")
    equal(texts(page, ".advice li"), ["a sentence with </script><b>markup</b>and(code);copy", "another"], "advice")
    equal(texts(page, ".advice code"), ["and(code);"], "code to copy")
    equal(texts(page, ".advice summary"), ["1 more"], "advice on demand")
    check_first_screen(page, ".advice li", ".advice code")
    tab(page, "runs")
    difference = "Number(document.querySelector('.verdict').dataset.firstDifference)"
    equal(page.evaluate(difference), expected["first_difference"], "first difference of two runs")
    check_work_of_runs(page, [mean_work(expected[run][1:]) for run in ("other_times", "times")])
    layouts("two")

    page.open(folder / "equal.html")
    tab(page, "runs")
    equal(page.evaluate(difference), -1, "first difference of a run and itself")

    page.open(folder / "edges.html")
    check_edges(page)
    page.open(folder / "beside_nothing.html")
    equal(len(texts(page, "#runs button")), 1, "runs to choose from")
    for name in TABS[:-1]:
        tab(page, name)
    page.open(folder / "nothing.html")
    equal(texts(page, "main"), ["Nothing was recorded."], "a page of nothing")

    page.open(folder / "settled.html")
    check_peak(page, expected["settled"])
    page.open(folder / "limited.html")
    check_limits(page, expected)
    layouts("limited")
    page.open(folder / "out_of_memory.html")
    check_out_of_memory(page, expected["failure"])
    check_first_screen(page, "#banner h2", "#banner p", ".advice li", ".advice code")
    layouts("out-of-memory")
    page.open(folder / "out_of_memory_at_setup.html")
    equal(texts(page, "#banner h2")[0].startswith("Out of memory on cpu: 16.0 MiB requested"), True, "the banner at setup")
    equal(texts(page, ".advice .note"), [], "no memory is left, although the limit was higher at the peak")
    page.open(folder / "accumulated.html")
    check_microbatches(page)
    page.open(folder / "books.html")
    check_books(page)
    layouts("books")
    page.open(folder / "beside_books.html")
    check_beside_books(page)
    page.open(folder / "damaged.html")
    equal(texts(page, ".warning")[0], "The recording is damaged, and events after the damage are missing: "
          "run.memlog: at byte 812: the checksum of a chunk is wrong.", "what is said of a damaged recording")
    equal(any("not finished" in w for w in texts(page, ".warning")), False, "it is said once")

    check_large(page, folder / "large.html", expected["large"])
    equal(page.evaluate("performance.getEntriesByType('resource').map((e) => e.name)"), [], "what a page asks for")
    equal(page.errors, [], "errors on the console")
    check_notices(page, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--browser", choices=browser.BROWSERS, default="chromium")
    parser.add_argument("--screenshots", type=pathlib.Path)
    arguments = parser.parse_args()
    program = browser.find(arguments.browser)
    if program is None:
        print(f"skipped: there is no {arguments.browser} here")
        sys.exit(77)
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.program, folder], check=True)
        with browser.BROWSERS[arguments.browser](program, WIDTHS[0], 1400) as page:
            check_all(page, pathlib.Path(folder), arguments.screenshots)
    print("the pages say what C++ says")


if __name__ == "__main__":
    main()

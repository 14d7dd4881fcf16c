# shellcheck shell=bash
# What the examples have in common, run as a user runs them. Sourced by a script of an example, which sets $example and
# gets the arguments PROGRAM CASE; CASE is a function of its own or one below, and the last that it calls.
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  echo "FAILED: $*"
  tail -n +1 ./*.txt
  exit 1
}
# expect STATUS ARGUMENTS...: runs the program; what it says is in out.txt and err.txt
expect() {
  local expected=$1 status=0
  shift
  timeout 120 "$program" "$@" > out.txt 2> err.txt < /dev/null || status=$?
  ((status == expected)) || fail "exit $status, expected $expected: $*"
}
says() { grep -qF -e "$2" "$1" || fail "$1 does not say: $2"; }

numbers() { head -c "$1" /dev/urandom | od -An -v -tu1 -w1; }
bytes() { while read -r number; do printf "\\x$(printf %x "$number")"; done; }

keys='example model dataset device threads seed epochs test_accuracy train_seconds images_per_s peak_allocated peak_reserved'
# The results have exactly these keys, and the peaks of the timeline.
check_results() {
  local found peaks timeline
  found=$(sed -nE 's/^  "([^"]+)": .*/\1/p' results.json | tr '\n' ' ')
  [[ $found == "$keys " ]] || fail "the keys are $found"
  peaks=$(sed -nE 's/^  "peak_(allocated|reserved)": ([0-9]+),?$/\2/p' results.json | tr '\n' ' ')
  timeline=$(sed -nE 's/^"statistics": \{"allocated":\{"current":[0-9]+,"peak":([0-9]+)\}.*"reserved":\{"current":[0-9]+,"peak":([0-9]+)\}.*/\1 \2 /p' memory.json)
  [[ $peaks =~ ^[1-9][0-9]*\ [1-9] && $peaks == "$timeline" ]] || fail "peaks '$peaks', in the timeline '$timeline'"
}
outputs=(--json results.json --memory-report memory.json)

help() {
  expect 0 --help
  says out.txt --memory-report
}

usage() {
  expect 2 --no-such-option
  local bad
  for bad in '--seed -1' '--seed 18446744073709551616' '--lr nan' '--lr -0.1' '--lr inf' '--epochs 0' '--epochs -1' \
    '--epochs 1.5' '--batch-size 0' '--batch-size -8' '--threads -1' '--until -1' '--until nan' \
    '--model tree'; do
    # shellcheck disable=SC2086  # two words
    expect 2 --data nowhere $bad
    says err.txt "${bad% *}"
  done
  expect 1 --data nowhere --threads 200000
  says err.txt "$example: set_num_threads: expected 1 to 1024, got 200000"
}

meta() {
  expect 0 --device meta --data nowhere "${outputs[@]}"
  check_results
  says results.json '"test_accuracy": null'
  says results.json '"device": "meta"'
}

# What cannot be written is said at once: before the data, which are not there either.
bad_outputs() {
  local option name
  printf -v name '%0300d' 0
  for option in --json --memory-report; do
    expect 1 --data nowhere $option missing/file.json
    says err.txt "'missing/file.json': No such file or directory"
    expect 1 --data nowhere $option "$name"
    says err.txt 'File name too long'
    expect 1 --data nowhere $option .
    says err.txt "'.': Is a directory"
  done
}

# Links and FIFOs stay what they are.
special_outputs() {
  ln -s results.json link
  mkfifo fifo
  timeout 60 cat fifo > memory.json &
  expect 0 --device meta --json link --memory-report fifo
  wait $!
  [[ -L link && -p fifo ]] || fail "the link or the FIFO was replaced"
  check_results
}

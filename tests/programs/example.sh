# shellcheck shell=bash
# What the examples have in common, run as a user runs them. Sourced by a script of an example, which sets $example and
# gets the arguments PROGRAM CASE; CASE is a function of its own or one below, and the last that it calls.
set -euo pipefail
program=$1
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)
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

figure=accuracy rate=images_per_s # of the results
# The results have exactly these keys, and the peaks of the timeline.
check_results() {
  local found peaks timeline
  local keys="example model dataset device threads seed epochs test_$figure train_seconds $rate peak_allocated peak_reserved"
  found=$(sed -nE 's/^  "([^"]+)": .*/\1/p' results.json | tr '\n' ' ')
  [[ $found == "$keys " ]] || fail "the keys are $found"
  peaks=$(sed -nE 's/^  "peak_(allocated|reserved)": ([0-9]+),?$/\2/p' results.json | tr '\n' ' ')
  timeline=$(sed -nE 's/^"statistics": \{"allocated":\{"current":[0-9]+,"peak":([0-9]+)\}.*"reserved":\{"current":[0-9]+,"peak":([0-9]+)\}.*/\1 \2 /p' memory.json)
  [[ $peaks =~ ^[1-9][0-9]*\ [1-9] && $peaks == "$timeline" ]] || fail "peaks '$peaks', in the timeline '$timeline'"
}
outputs=(--json results.json --memory-report memory.json)

# measures_advice START CODE ARGUMENTS...: page.html has advice that starts so, with its time and a line of code.
measures_advice() {
  local start=$1 code=$2 time="((\+|−)[0-9.]+ (m|µ|n)?s a step \((\+|−)[0-9]+ %\)|less than 1 % of a step's time)"
  shift 2
  if ! "$program" "$@" > out.txt 2> err.txt; then
    says err.txt 'this build has no d3'
    return
  fi
  says out.txt 'timing steps without and with '
  grep -qE "^  ${start#cpu: }.*: peak .*, $time" out.txt || fail "the program does not say what its advice costs"
  grep -qE "\"$start[^\"]*: peak [^\"]*, $time\\\\n$code" page.html || fail "the page does not say what its advice costs"
}

# scripts/demo lists the options too, and refuses all others.
help() {
  local option options usage
  expect 0 --help
  says out.txt --memory-report
  options=$(grep -oE '^ +(-h,)?--[a-z-]+' out.txt | grep -oE -- '--[a-z-]+' | grep -vx -- --help)
  usage=$(sed -n "4,8p; /^#   $example .*takes/p" "$scripts/demo")
  [[ $options == *--json* ]] || fail 'no options were found'
  for option in $options; do [[ $usage == *"[$option"[\ \]]* ]] || fail "scripts/demo does not list $option"; done
}

usage() {
  local unknown
  expect 2 --no-such-option
  says err.txt 'unknown option --no-such-option'
  ! grep -q 'did you mean' err.txt || fail 'an option that nothing resembles is another one'
  for unknown in '--epoch 1' --epoch=1 '--eposch 1'; do
    # shellcheck disable=SC2086  # two words
    expect 2 $unknown
    says err.txt "unknown option ${unknown%%[ =]*}: did you mean --epochs?"
  done
  expect 2 stray
  says err.txt 'stray'
  local bad
  for bad in '--seed -1' '--seed 18446744073709551616' '--lr nan' '--lr -0.1' '--lr inf' '--epochs 0' '--epochs -1' \
    '--epochs 1.5' '--batch-size 0' '--batch-size -8' '--threads -1' '--until -1' '--until nan' \
    '--model tree' '--memory-limit -1' '--memory-limit 3XB' '--memory-limit GiB' '--memory-limit 1.5' \
    '--memory-limit 1e9GiB' '--memory-limit 99999999TiB' '--memory-limit nanGiB'; do
    # shellcheck disable=SC2086  # two words
    expect 2 --data nowhere $bad
    says err.txt "${bad% *}"
  done
  expect 1 --data nowhere --threads 200000
  says err.txt "$example: set_num_threads: expected 1 to 1024, got 200000"
  if ! nvidia-smi > /dev/null 2>&1; then
    expect 1 --data nowhere --device cuda
    says err.txt '; --predict predicts the memory without the device'
  fi
  expect 2 --data nowhere --graph --detect-anomaly
  says err.txt '--graph excludes --detect-anomaly'
  expect 1 --device meta --checkpoint run.ckpt
  says err.txt '--device meta trains nothing: leave out --checkpoint'
}

unread=(--data nowhere) # data that a prediction does not read
meta() {
  expect 0 --device meta "${unread[@]}" "${outputs[@]}"
  check_results
  says results.json "\"test_$figure\": null"
  says results.json '"device": "meta"'
  says out.txt 'predicted for cpu on '
}

# A GPU's memory needs none, nor data.
predict() {
  expect 0 --predict --device cuda --memory-limit 7.5GiB "${unread[@]}" "${outputs[@]}"
  check_results
  says results.json "\"test_$figure\": null"
  grep -qE '^predicted for cuda: fits into 7.50 GiB; (all steps from step [0-9]+ on are alike|from step [0-9]+ on, steps repeat)' out.txt ||
    fail "the steps do not settle"
  grep -qE '^(--batch-size [0-9]+ is the largest that|any --batch-size) fits into 7.50 GiB$' out.txt || fail "no batch is named"
  expect 0 --predict --device cuda --graph --amp
  says out.txt 'autocast copy'
  expect 1 --predict --memory-limit "$tight"
  says out.txt 'predicted for cpu on '
  says out.txt ' does not fit into '
  says err.txt 'out of memory on meta: '
  says err.txt 'largest holders'
  expect 1 --predict --memory-limit 1MiB
  says out.txt 'not even --batch-size 1 fits into 1.00 MiB'
  expect 1 --predict --checkpoint run.ckpt
  says err.txt '--predict trains nothing: leave out --checkpoint'
  expect 0 --predict --memory-log predicted.memlog
  says out.txt 'memory log: predicted.memlog'
  expect 0 --predict --memory-log levers.memlog --step-in-backward --recompute
  expect 0 --predict --device cuda --graph --save-on-cpu
  says out.txt 'also on pinned:meta:cuda: peak '
  expect 1 --predict --device-times 2
  says err.txt '--device-times: no recording is written: add --memory-log'
  expect 1 --predict --memory-log predicted.memlog --device-times 2
  says err.txt '--device-times: not with --predict'
  expect 1 --memory-log cpu.memlog --device cpu --device-times 2
  says err.txt '--device-times: only a run with --device cuda has device times'
  expect 2 --predict --device-times -1
  predicted_page
}
# What is predicted is drawn, with advice; where no page can be drawn, that is said.
predicted_page() {
  if ! "$program" --predict --memory-report page.html > out.txt 2> err.txt; then
    says err.txt 'this build has no d3'
    return
  fi
  says out.txt 'memory log: page.memlog'
  grep -qE '"advice":\["[^"]*: peak ' page.html || fail "the page advises nothing"
  expect 1 --predict --memory-report page.html --memory-log /dev/null
  says err.txt "'/dev/null' is not a regular file"
}

# check_largest LIMIT BATCH ARGUMENTS...: where memory runs out the largest batch is named, and it is the largest
check_largest() {
  local limit=$1 batch=$2 fits
  shift 2
  expect 1 "$@" --memory-limit "$limit" --batch-size "$batch"
  says err.txt 'out of memory on cpu: '
  fits=$(sed -nE 's/^--batch-size ([0-9]+) is the largest that fits into .*/\1/p' err.txt)
  [[ $fits ]] || fail "no batch is named"
  expect 0 "$@" --memory-limit "$limit" --batch-size "$fits"
  expect 1 "$@" --memory-limit "$limit" --batch-size $((fits + 1))
}

# What cannot be written is said at once: before the data, which are not there either.
bad_outputs() {
  local option name
  printf -v name '%0300d' 0
  for option in --json --memory-report --checkpoint; do
    expect 1 --data nowhere $option missing/file.json
    says err.txt "'missing/file.json': No such file or directory"
    expect 1 --data nowhere $option "$name"
    says err.txt 'File name too long'
    expect 1 --data nowhere $option .
    says err.txt "'.': Is a directory"
  done
  ln -s . here
  for option in '--json a --memory-report ./a' '--json here/a --checkpoint a' '--memory-report a --resume no/../a'; do
    # shellcheck disable=SC2086  # words
    expect 1 --data nowhere $option
    says err.txt "${option%% *} and --"
    says err.txt " name the same file, '${option##* }': give each its own"
  done
}

# Data folders that are not there, no folder, or not to be read
no_folder() {
  expect 1 --data nowhere
  says err.txt 'nowhere: cannot read this folder: No such file or directory'
  BYTETAPE_DATA=$folder/nowhere XDG_CACHE_HOME=$folder expect 1
  says err.txt "\$BYTETAPE_DATA, $folder/nowhere: cannot read this folder: No such file or directory"
  mkdir -m 0 secret
  expect 1 --data secret
  if [[ ! -r secret ]]; then says err.txt 'secret: cannot read this folder: Permission denied'; fi # root reads all
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
  expect 0 --device meta --json /dev/null --memory-report /dev/null # which replace nothing
}

# when TEXT COMMAND ARGUMENTS...: runs the program, and as it says TEXT COMMAND with its process; its exit status is in
# $status. SIGINT is taken as $sigint says
sigint=default
when() {
  local text=$1 command=$2 said line pid
  shift 2
  exec {said}< <(exec env --$sigint-signal=INT "$program" "$@" 2> err.txt < /dev/null)
  pid=$!
  while read -r line <&"$said"; do
    echo "$line"
    if [[ $line == *"$text"* ]]; then $command $pid; text=$'\n'; fi # once
  done > out.txt
  exec {said}<&-
  status=0
  wait $pid || status=$?
}

# check_resume ARGUMENTS...: a run of two epochs that is interrupted twice ends in the checkpoint of one that is not
check_resume() {
  local status fewer=("$@" --epochs 1)
  set -- "$@" --epochs 2
  expect 0 "$@" --checkpoint whole.ckpt
  when 'epoch 1/2 ' 'kill -s INT' "$@" --checkpoint run.ckpt "${outputs[@]}"
  ((status == 130)) || fail "exit $status after SIGINT"
  check_results
  says results.json "\"test_$figure\": null"
  says out.txt 'interrupted        after '
  says out.txt 'run the same command with --resume run.ckpt'
  when 'epoch 2/2 ' 'kill -s TERM' "$@" --checkpoint run.ckpt --resume run.ckpt
  ((status == 143)) || fail "exit $status after SIGTERM"
  expect 0 "${fewer[@]}" --resume run.ckpt # has gone further
  says out.txt ' after 1 epoch and '
  expect 0 "$@" --checkpoint run.ckpt --resume run.ckpt "${outputs[@]}"
  cmp run.ckpt whole.ckpt || fail "it went on to other bits"
  says results.json '"epochs": 2'
  expect 0 "$@" --resume whole.ckpt --checkpoint again.ckpt --json again.json
  [[ $(grep test_ again.json) == "$(grep test_ results.json)" ]] || fail "a finished run has another result"
  cmp again.ckpt whole.ckpt || fail "a finished run has no checkpoint"
  expect 1 "$@" --seed 5 --resume run.ckpt
  says err.txt "--resume: expected a checkpoint of $example --model"
  says err.txt '--seed 0 on '
  head -c 5000 run.ckpt > part.ckpt
  expect 1 "$@" --resume part.ckpt
  says err.txt 'part.ckpt: at byte'
  says err.txt 'the file is cut off'
  echo 'not a checkpoint at all' > text.ckpt
  expect 1 "$@" --resume text.ckpt
  says err.txt 'text.ckpt: at byte 0: not a safetensors file: '
}

# check_picture OPTION FILE ARGUMENTS...: FILE is a PNG; skipped where this build writes none
check_picture() {
  local option=$1 file=$2 status
  shift 2
  "$program" --data nowhere "$option" "$file" > out.txt 2> err.txt || true
  if grep -F 'this build cannot write pictures' err.txt; then exit 77; fi
  expect 0 "$@" "$option" "$file"
  [[ $(head -c 8 "$file" | od -An -tx1) == ' 89 50 4e 47 0d 0a 1a 0a' ]] || fail "$file is no PNG"
  says out.txt "picture: $file"
  expect 1 --data nowhere "$option" missing/picture.png
  says err.txt "cannot write the picture to 'missing/picture.png': No such file or directory"
  expect 1 --data nowhere "$option" one.png --json one.png
  says err.txt "--json and $option name the same file"

  # A folder that vanishes meanwhile costs the picture alone.
  mkdir gone
  mkfifo fifo
  take_away() { rmdir gone && cat fifo > results.json; }
  when 'training time' take_away "$@" "$option" gone/picture.png --json fifo --memory-report memory.json
  ((status == 1)) || fail "exit $status without a folder"
  says err.txt "cannot write the picture to 'gone/picture.png'"
  check_results
}

# shellcheck shell=bash
# shellcheck disable=SC2154  # variables that the sourcing script sets
# Downloads and verifies files, for scripts/download_*, which source this. They set $urls (addresses of folders, tried in
# order) and $dir (the target), define `verified FILE SUM`, call prepare_folder, then call obtain for each missing file.
# Safe to interrupt and repeat: a file gets its name only after it is verified, and a partial file is resumed.

say() { echo "$(basename "$0"): $*" >&2; }
die() { say "$@"; exit 1; }

# fetch URL PART: continues the download of PART. Gives up after a few seconds if the server does not respond.
fetch() {
  if [[ $tool == curl ]]; then
    curl -fsSL --connect-timeout 4 --speed-limit 1 --speed-time 10 -C - -o "$2" "$1"
  else
    wget -nv -c --tries=1 --dns-timeout=4 --connect-timeout=4 --read-timeout=10 -O "$2" "$1"
  fi
}

# try URL NAME SUM: sets `problem` if it fails
try() {
  local url=$1/$2 part=$dir/$2.part status=0 resumed=
  if [[ -s $part ]]; then resumed=yes; fi
  if ! verified "$part" "$3"; then fetch "$url" "$part" || status=$?; fi
  case $tool$status in
    curl0 | wget0)
      if verified "$part" "$3"; then
        mv -f "$part" "$dir/$2"
        return
      fi
      problem="$url has the wrong checksum" ;;
    curl23 | wget3) die "cannot write to $dir" ;;
    curl5 | curl6 | curl7 | curl18 | curl28 | curl35 | curl52 | curl55 | curl56 | wget4)
      problem="cannot reach $url"
      if [[ -s $part ]]; then problem="the download of $url broke off (run this again to resume it)"; fi
      return 1 ;;
    *) problem="cannot fetch $url ($tool says $status)" ;;
  esac
  rm -f "$part"
  if [[ $resumed ]]; then try "$@"; else return 1; fi # the partial file may be damaged: try again without it
}

# obtain NAME SUM: downloads from the first of $urls that has the file
obtain() {
  local url problems=
  for url in "${urls[@]%/}"; do
    if try "$url" "$@"; then
      say "$1 from $url"
      return
    fi
    problems+=${problems:+; }$problem
  done
  die "$problems"
}

made=() # folders that this script made, the innermost first
make_folder() {
  local folder=$dir
  while [[ ! -e $folder ]]; do
    made+=("$folder")
    folder=$(dirname "$folder")
  done
  mkdir -p "$dir" 2> /dev/null || true
  [[ -w $dir ]] || die "cannot write to $dir"
}
leave_no_empty_folder() { rmdir "${made[@]}" 2> /dev/null || true; }

# prepare_folder: makes $dir and waits for another download into it. Folders that stay empty are removed at the end.
prepare_folder() {
  tool=$(basename "$(command -v curl || command -v wget)") || die "needs curl or wget"
  trap leave_no_empty_folder EXIT
  make_folder
  exec {lock}< "$dir"
  flock "$lock"
  make_folder # the other download may have removed it
}

#!/usr/bin/env bash
# Runs fuzz targets on the stable toolchain and adds what was run to fuzz/TOTALS.md.
#
#   fuzz/run.sh [--no-build] [TARGET] [SECONDS]     one target, or all in turn; 60 seconds each unless told otherwise
#
# With --no-build it runs what was built before, for instance while the sources are being changed.
# A finding is left under fuzz/artifacts/TARGET and makes the script fail; CONTRIBUTING.md says what to do with it.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version that the targets were written with; newer ones should work.
readonly cargo_fuzz_version=0.13.2
# The longest input: well above every seed, well below what makes one run slow.
readonly max_input_bytes=8192
# One input may take this long before it counts as a finding. Nothing that is checked takes more than milliseconds.
readonly input_timeout_s=10
# Memory limit of a run. The fuzzer itself keeps a corpus of a few hundred MiB at most.
readonly memory_mb=2048

say() { printf 'fuzz: %s\n' "$*" >&2; }

dictionary() {
  case $1 in
    request_head | response_head | chunked | fields | exchange) echo http1 ;;
    exchange_http2) echo http2 ;;
    resource_file | admin_body) echo objects ;;
    *) echo "$1" ;;
  esac
}

targets() { find fuzz/fuzz_targets -name '*.rs' -exec basename {} .rs \; | sort; }

findings() { find "fuzz/artifacts/$1" -type f 2>/dev/null | wc -l; }

# The last number behind a word in the fuzzer's log.
last() { sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$2" | tail -1; }

# Adds a run to the table: executions, seconds and findings are sums, coverage is the most that was reached.
add_to_totals() {
  awk -v target="$1" -v runs="$2" -v coverage="$3" -v seconds="$4" -v findings="$5" '
    function row(name, a, b, c, d) { printf "| %s | %d | %d | %d | %d |\n", name, a, b, c, d }
    function number(text) { gsub(/[^0-9]/, "", text); return text + 0 }
    /^\| [a-z0-9_]+ \| [0-9]+ \|/ {
      split($0, cell, "|"); name = cell[2]; gsub(/ /, "", name)
      a = number(cell[3]); b = number(cell[4]); c = number(cell[5]); d = number(cell[6])
      if (name == target) { a += runs; c += seconds; d += findings; if (coverage > b) b = coverage; found = 1 }
      row(name, a, b, c, d); sum_a += a; sum_c += c; sum_d += d; next
    }
    /^\| \*\*all\*\*/ {
      if (!found) { row(target, runs, coverage, seconds, findings); sum_a += runs; sum_c += seconds; sum_d += findings }
      printf "| **all** | %d | | %d | %d |\n", sum_a, sum_c, sum_d; next
    }
    { print }' fuzz/TOTALS.md >fuzz/TOTALS.md.new
  mv fuzz/TOTALS.md.new fuzz/TOTALS.md
}

# On a busy machine a delayed process looks slow, so an input that is quick when run alone is no finding.
dismiss_held_up() {
  local input
  for input in "fuzz/artifacts/$1"/{timeout,slow-unit}-*; do
    [ -e "$input" ] || continue
    if "$programs/$1" -timeout="$input_timeout_s" "$input" >/dev/null 2>&1; then rm "$input"; fi
  done
}

run() {
  local target=$1 seconds=$2 log before started found runs took
  mkdir -p "fuzz/work/$target" "fuzz/artifacts/$target"
  log=fuzz/work/$target.log
  before=$(findings "$target")
  started=$(date +%s)
  say "$target for $seconds s"
  # New inputs go to the first corpus; the committed one is only read.
  "$programs/$target" "fuzz/work/$target" "fuzz/corpus/$target" -artifact_prefix="fuzz/artifacts/$target/" \
    -max_total_time="$seconds" -max_len="$max_input_bytes" -timeout="$input_timeout_s" \
    -rss_limit_mb="$memory_mb" -dict="fuzz/dictionaries/$(dictionary "$target").dict" \
    -print_final_stats=1 -verbosity=1 >"$log" 2>&1 || true
  runs=$(last 'stat::number_of_executed_units:' "$log")
  took=$(($(date +%s) - started))
  dismiss_held_up "$target"
  found=$(($(findings "$target") - before))
  if [ -z "$runs" ]; then
    say "$target did not run:"
    tail -20 "$log" >&2
    return 1
  fi
  add_to_totals "$target" "$runs" "$(last 'cov:' "$log")" "$took" "$found"
  say "$target: $runs runs, $found findings"
  if [ "$found" -gt 0 ]; then
    grep -a -A3 -m1 'panicked at\|ERROR: libFuzzer' "$log" >&2 || true
    say "the input is under fuzz/artifacts/$target"
    return 1
  fi
}

build=yes
[ "${1:-}" != --no-build ] || { build=no; shift; }
wanted=${1:-}
seconds=${2:-60}
if [ -n "$wanted" ] && [ ! -e "fuzz/fuzz_targets/$wanted.rs" ]; then
  say "no target $wanted; there are: $(targets | paste -sd ' ')"
  exit 2
fi
programs=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release
if [ "$build" = yes ]; then
  lab/install.sh fuzz
  if ! cargo fuzz --version >/dev/null 2>&1; then
    say "installing cargo-fuzz $cargo_fuzz_version"
    cargo install cargo-fuzz --locked --version "$cargo_fuzz_version"
  fi
  # Without a sanitizer, which would need a nightly compiler.
  cargo fuzz build -s none ${wanted:+"$wanted"}
fi
failed=()
for target in ${wanted:-$(targets)}; do
  run "$target" "$seconds" || failed+=("$target")
done
[ ${#failed[@]} -eq 0 ] || { say "findings or faults in: ${failed[*]}"; exit 1; }

#!/usr/bin/env bash
# Fuzzes what reads untrusted bytes: scripts/fuzz.sh [SECONDS [TARGET…]]. It builds the targets (the workspace fuzz/) once, and runs each for so many seconds (60 by
# default). A target begins with the committed seeds (fuzz/seeds/TARGET) and the inputs that earlier runs found. Without names it runs all targets. An input that
# makes a target panic, hang or use too much memory ends it with an error: the path of the input, and the command that runs it again.
# It needs Rust's stable compiler and g++, and neither cargo-fuzz nor a nightly: libFuzzer's counters of coverage are in both compilers. There is no address sanitizer.
# With 0 seconds it builds, and runs nothing.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/fuzz
seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || { echo "error: \`$seconds\` is no number of seconds. Run: scripts/fuzz.sh [SECONDS [TARGET…]]" >&2; exit 2; }
names=("${@:2}")
if ! command -v g++ >/dev/null; then
  echo "error: no C++ compiler (g++), which compiles libFuzzer. On Debian or Ubuntu run: sudo apt-get install g++" >&2
  exit 1
fi

folders=(verifier verifier/math-answer sandboxes trainer/engine)
declare -A folder_of
for folder in "${folders[@]}"; do
  while read -r name; do
    folder_of[$name]=$folder
  done < <(sed -n '/^\[\[bin\]\]/,/^$/s/^name = "\(.*\)"/\1/p' "$folder/fuzz/Cargo.toml")
done
[ "${#names[@]}" != 0 ] || mapfile -t names < <(printf '%s\n' "${!folder_of[@]}" | sort)
for name in "${names[@]}"; do
  if [ -z "${folder_of[$name]:-}" ]; then
    echo "error: there is no target \`$name\`. There are: $(printf '%s\n' "${!folder_of[@]}" | sort | paste -sd ' ')" >&2
    exit 2
  fi
done

# This repository's crates are compiled once more, with counters (fuzz/rustc.sh) and with debug assertions, which also gives them names of their own in the build folder.
# Almost all others are those of the release build.
cp Cargo.lock fuzz/Cargo.lock
FUZZ_ROOT=$root RUSTC_WRAPPER=$root/scripts/fuzz/rustc.sh \
  cargo build --release --workspace --quiet --target-dir "$target" --manifest-path fuzz/Cargo.toml
[ "$seconds" != 0 ] || exit 0

# Bytes of the longest input, and MiB of memory.
limits() {
  case $1 in
    modules) echo 40000 1024 ;;
    gguf | safetensors) echo 20000 600 ;;
    math) echo 600 2048 ;;
    *) echo 4096 2048 ;;
  esac
}

printf '%-18s %10s %10s %12s %10s %8s\n' target seconds 'CPU time' executions coverage inputs
for name in "${names[@]}"; do
  corpus=$work/corpus/$name found=$work/found/$name log=$work/$name.log
  mkdir -p "$corpus" "$found"
  read -r length memory < <(limits "$name")
  inputs=("$corpus")
  seeds=${folder_of[$name]}/fuzz/seeds/$name
  [ ! -d "$seeds" ] || inputs+=("$seeds")
  options=("-max_len=$length" "-rss_limit_mb=$memory" -timeout=25)
  TIMEFORMAT='%R %U %S'
  if ! { time "$target/release/$name" "${options[@]}" "-max_total_time=$seconds" -print_final_stats=1 "-artifact_prefix=$found/" "${inputs[@]}" 2>"$log"; } 2>"$log.time"; then
    tail -n 60 "$log" >&2
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    printf '\nerror: the fuzz target %s failed. The input: %s\nTo run it again: %s %s %s\n' \
      "$name" "${input:-none was written}" "$target/release/$name" "${options[*]}" "${input:-}" >&2
    exit 1
  fi
  read -r elapsed user system < <(tail -n 1 "$log.time")
  awk -v name="$name" -v elapsed="$elapsed" -v processor="$user $system" '
    /stat::number_of_executed_units:/ { executions = $2 }
    match($0, /cov: [0-9]+/) { coverage = substr($0, RSTART + 5, RLENGTH - 5) }
    match($0, /corp: [0-9]+/) { inputs = substr($0, RSTART + 6, RLENGTH - 6) }
    END {
      split(processor, time, " ")
      printf "%-18s %10.0f %10.0f %12d %10d %8d\n", name, elapsed, time[1] + time[2], executions, coverage, inputs
    }' "$log"
done

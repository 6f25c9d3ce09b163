#!/usr/bin/env bash
# cargo's RUSTC_WRAPPER in scripts/fuzz.sh: compiles this repository's crates with the counters of coverage that libFuzzer reads. Other crates are compiled as always, so
# that they are those of the usual build.
set -euo pipefail

if [[ ${CARGO_MANIFEST_DIR:-} == "$FUZZ_ROOT"/* && " $* " != *" --crate-name build_script_"* ]]; then
  set -- "$@" -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
    -C llvm-args=-sanitizer-coverage-pc-table -C llvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing
fi
exec "$@"

#!/usr/bin/env bash
# Runs every check, from a clean clone: formatting, lints, unit, end-to-end and documentation tests. Ends with a list of the skipped tests and the reasons.
# The first time, it fetches two models (98 and 253 MB), a 50 MB Python for the sandbox, data sets (25 MB), tokenizers and a compiler of CUDA kernels (90 MB). They
# go into the cache folder ($RAPID_HOME), and a Lean (180 MB, 600 MB unpacked) into /tmp.
# As root on Debian or Ubuntu it changes the system: it installs shellcheck, bubblewrap, curl, git, docker.io, iptables, debootstrap, npm, openmpi-bin and mpich if they are missing. If no
# Docker engine answers, it starts dockerd and leaves it running. As any other user it installs no packages, and skips the tests that need missing ones.
# With CI set, it is a failure if something that the script could have installed is missing.
# RAPID_TEST_LONG=1 runs in full what takes tens of minutes, also under a Slurm of one node, for which it installs slurm-wlm, munge and libpmix-dev, and runs the fuzz targets.
# With --data, it runs only the tests that read data sets.
# With --lean, it runs only the tests of Lean proofs, but all of them, which takes ten minutes, and writes sandboxes/lean/RESULTS.md.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"
# shellcheck source-path=SCRIPTDIR source=packages.sh
source scripts/packages.sh

target=${CARGO_TARGET_DIR:-target}
log=$target/test.log
skipped=()

if ! command -v g++ >/dev/null; then
  echo "error: no C++ compiler (g++), which tests need to run the CUDA kernels without a GPU. On Debian or Ubuntu run: sudo apt-get install g++" >&2
  exit 1
fi

step() {
  printf '\n== %s (after %d s)\n' "$1" "$SECONDS"
}

skip() {
  skipped+=("$1")
  printf 'SKIPPED: %s\n' "$1"
}

# Succeeds if a cargo subcommand of rustup is installed or rustup can install it. Where CI is set and there is a rustup, it is an error if it cannot.
component() {
  "cargo-$1" --version >/dev/null 2>&1 || rustup component add "$2" >/dev/null 2>&1 || {
    [ -z "${CI:-}" ] || ! command -v rustup >/dev/null || { printf 'error: rustup cannot install %s\n' "$2" >&2; exit 1; }
    return 1
  }
}

# The tests read each whole data set if it is on the machine, else a dozen records (RAPID_TEST_DATA, datasets/excerpts).
if [ "${1:-}" = --data ]; then
  # With the tests: without them, crates are built with other features, so once more.
  cargo build --release --locked --workspace --lib --bins --tests --examples
  step "tests that read data sets"
  cargo test --release --locked --workspace --test real_data
  cargo test --release --locked --workspace --test all -- real_data:: math_data:: minif2f:: determinism:: trains_with_real_rewards
  exit
fi

step "packages"
mkdir -p "$target"
if command -v apt-get >/dev/null; then
  # The linter of the scripts, the jail of Lean's proofs, and the programs in the documents' commands.
  install "$target/apt.log" shellcheck bubblewrap curl git || true
  # It fetches tokenizers and Lean. Node's own packages have it too.
  command -v npm >/dev/null || install "$target/apt-npm.log" npm || true
  install "$target/apt-mpi.log" openmpi-bin mpich || true
  must_have shellcheck bwrap npm mpirun.openmpi mpirun.mpich
fi
for program in curl git; do
  if ! command -v "$program" >/dev/null; then
    echo "error: no $program, which the documents' commands need in the tests. On Debian or Ubuntu run: sudo apt-get install $program" >&2
    exit 1
  fi
done

step "formatting"
if component fmt rustfmt; then
  cargo fmt --all --check
else
  skip "formatting: rustfmt is not installed (rustup component add rustfmt)"
fi
if command -v shellcheck >/dev/null; then
  shellcheck --external-sources deploy/slurm/*.sbatch scripts/*.sh scripts/bench/*.sh scripts/fuzz/rustc.sh scripts/wheels/cargo sandboxes/docker/*.sh .ci/run
else
  skip "lints of the scripts: shellcheck is not installed (apt-get install shellcheck)"
fi

# These wait for the network, so they run beside the build, each with its output and its exit status in files.
ready=$target/ready
mkdir -p "$ready"
for name in docker lean tokenizers cuda; do
  status=0
  bash "scripts/$name.sh" >"$ready/$name.log" 2>&1 || status=$?
  echo "$status" >"$ready/$name"
done </dev/null &
beside=$!
trap 'kill "$beside" 2>/dev/null || true' EXIT

step "build"
# Without benchmarks, which no test runs; the lints check that they compile.
cargo build --release --locked --workspace --lib --bins --tests --examples

step "artifacts"
"$target/release/rapid" fetch model:smollm2-135m-instruct
"$target/release/rapid" fetch sandbox:python-wasi
# 253 MB. If it or what was fetched beside the build is missing, the tests that need it are skipped and say so.
"$target/release/rapid" fetch model:gemma3-270m || true
wait "$beside"
trap - EXIT
tail -n 3 "$ready"/{tokenizers,cuda}.log
# Without them, tests read a dozen records of each (datasets/excerpts), and say so. HumanEval has no excerpt.
for dataset in humaneval mbppplus math gsm8k minif2f; do
  "$target/release/rapid" fetch "dataset:$dataset" || true
done
# Compiles the sandbox's Python once, before tests use it in parallel.
"$target/release/rapid-verifier" doctor

step "Docker"
cat "$ready/docker.log"
if [ "$(<"$ready/docker")" = 0 ]; then
  # From here on, a Docker sandbox that does not work is a failure.
  export RAPID_TEST_DOCKER=required
else
  must_have dockerd docker
  skip "tests that need Docker: $(tail -n 1 "$ready/docker.log")"
fi

step "MPI"
if command -v mpirun.openmpi >/dev/null && command -v mpirun.mpich >/dev/null; then
  export RAPID_TEST_MPI=required
else
  skip "tests of several ranks: Open MPI and MPICH are not installed (apt-get install openmpi-bin mpich)"
fi

step "Lean"
lean=$(tail -n 1 "$ready/lean.log")
if [ "$(<"$ready/lean")" = 0 ]; then
  export RAPID_TEST_LEAN=$lean
else
  skip "tests that need a real Lean: $lean"
fi
if [ "${1:-}" = --lean ]; then
  results=$root/sandboxes/lean/RESULTS.md
  table=$target/lean-results.md
  RAPID_TEST_LEAN_ALL=1 cargo test --release --locked --workspace --test all -- lean:: --nocapture | tee "$table"
  {
    sed '/^| theorem/,$d' "$results"
    printf '| theorem | completion | judged by | verdict | reason |\n| --- | --- | --- | --- | --- |\n'
    # A line may begin with the name of the test.
    grep -o '| .* |$' "$table" | LC_ALL=C sort -t '|' -k 5,5 -k 4,4 -k 2,3
  } >"$table.whole"
  mv "$table.whole" "$results"
  printf '\n== %s is written\n' "$results"
  exit
fi

# These wait more than they compute, so they run beside the lints, which leave them the processor. In a process group of their own, which ends with this script.
clients=$target/clients.log
set -m
{ bash scripts/python-client.sh && bash scripts/wheels.sh && bash scripts/compat.sh; } >"$clients" 2>&1 </dev/null &
set +m
beside=$!
trap 'kill -- "-$beside" 2>/dev/null || true' EXIT

step "manifests"
bash scripts/manifests.sh

step "lints"
if component clippy clippy; then
  nice -n 10 cargo clippy --release --locked --workspace --all-targets -- --deny warnings
else
  skip "lints: clippy is not installed (rustup component add clippy)"
fi

step "fuzz targets"
if [ "${RAPID_TEST_LONG:-}" = 1 ]; then
  bash scripts/fuzz.sh 3
else
  # To build them with counters takes minutes.
  cp Cargo.lock fuzz/Cargo.lock
  nice -n 10 cargo check --release --workspace --quiet --target-dir "$target" --manifest-path fuzz/Cargo.toml
fi

step "Python client, wheels and other projects' clients, which ran beside the lints"
status=0
wait "$beside" || status=$?
trap - EXIT
cat "$clients"
[ "$status" = 0 ] || exit "$status"

# Shows one line per test when it ends. The whole output is in the log, and on the screen if a test fails.
step "tests"
if command -v cargo-nextest >/dev/null; then
  tests=(cargo nextest run --release --locked --workspace --success-output immediate --no-output-indent)
  shown='^ *(PASS|SLOW|LEAK|TERMINATING|TIMEOUT|FAIL|SIGNAL|Summary|Starting)|SKIPPED:'
else
  tests=(cargo test --release --locked --workspace --lib --bins --tests --no-fail-fast -- --show-output)
  shown='^test |^test result:|SKIPPED:'
fi
status=0
"${tests[@]}" 2>&1 | tee "$log" | { grep --line-buffered --extended-regexp "$shown" || true; } || status=$?
if [ "$status" != 0 ]; then
  printf '\n== the last 300 lines of %s\n' "$log"
  tail -n 300 "$log"
  exit "$status"
fi
while IFS= read -r line; do
  skipped+=("${line#*SKIPPED: }")
done < <(grep 'SKIPPED:' "$log" | sort -u)

step "documentation"
cargo test --release --locked --workspace --doc
# The documentation is for the project's developers, so it includes private items, and links to them are allowed.
RUSTDOCFLAGS="--deny warnings --allow rustdoc::private_intra_doc_links" \
  cargo doc --release --locked --workspace --no-deps --document-private-items --quiet

step "licences and sources of dependencies"
if command -v cargo-deny >/dev/null; then
  # Not offline: it needs the crates of every platform, and the build has fetched only those of its own.
  cargo deny --locked check bans licenses sources
else
  skip "licences and sources of dependencies: cargo-deny is not installed (cargo install --locked cargo-deny)"
fi

printf '\n== all passed in %d s; skipped: %d\n' "$SECONDS" "${#skipped[@]}"
[ "${#skipped[@]}" = 0 ] || printf '  - %s\n' "${skipped[@]}"

#!/usr/bin/env bash
# The study of docs/study/rapid, a block at a time. Needs the release binaries (cargo build --release --locked --workspace) and a fetched model.
#   bash scripts/study.sh STAGE N         makes the Nth block of a stage's sweep, and packs its logs as docs/study/rapid/results/STAGE-N.tar.gz
#   bash scripts/study.sh STAGE report    unpacks all blocks of the stage, makes its report in runs/study/STAGE, and copies the tables and figures to
#                                         docs/study/rapid/STAGE. Before the last block is made, it refuses: nobody looks at unfinished tests
# STAGE is a file of docs/study/rapid/sweeps. Started again, a block goes on where it ended. A packed block is not made again: its folder may be gone.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
usage() {
  echo "usage: bash scripts/study.sh STAGE N|report" >&2
  echo "stages: $(cd "$root/docs/study/rapid/sweeps" && printf '%s ' ./*.toml | sed 's/\.toml//g; s/\.\///g')" >&2
  exit 2
}
[ $# = 2 ] || usage
stage=$1 what=$2
cd "$root"
sweep=docs/study/rapid/sweeps/$stage.toml results=docs/study/rapid/results
rapid=${CARGO_TARGET_DIR:-target}/release/rapid
[ -f "$sweep" ] || usage
if ! [ -x "$rapid" ]; then
  echo "error: there is no $rapid: cargo build --release --locked --workspace" >&2
  exit 2
fi

if [ "$what" = report ]; then
  seeds=$(sed -n 's/^seeds = \[\(.*\)\].*/\1/p' "$sweep" | tr ',' '\n' | grep -c . || true)
  [ "$seeds" != 0 ] || { echo "error: $sweep has no line like seeds = [0, 1]" >&2; exit 1; }
  rounds=$(sed -n 's/^rounds = \([0-9]*\).*/\1/p' "$sweep")
  blocks=()
  for ((block = 1; block <= seeds * ${rounds:-1}; block++)); do
    packed=$results/$stage-$block.tar.gz
    if ! [ -f "$packed" ]; then
      echo "error: there is no $packed yet: bash scripts/study.sh $stage $block" >&2
      exit 1
    fi
    blocks+=("$packed")
  done
  out=runs/study/$stage
  rm -rf "$out"
  mkdir -p "$out"
  for block in "${blocks[@]}"; do
    # Every block has a manifest of its own runs.
    tar -xzf "$block" -C "$out" --exclude=./manifest.jsonl
    tar -xzOf "$block" ./manifest.jsonl >>"$out/manifest.jsonl"
  done
  "$rapid" report "$out"
  tables=docs/study/rapid/$stage
  rm -rf "$tables"
  mkdir -p "$tables"
  cp "$out"/*.csv "$out"/*.svg "$tables"
  exit
fi
[[ $what =~ ^[1-9][0-9]*$ ]] || usage
packed=$results/$stage-$what.tar.gz
if [ -f "$packed" ]; then
  echo "$packed has this block already"
  exit
fi
out=runs/study/$stage-$what
mkdir -p runs/study "$results"
"$rapid" sweep "$sweep" --out "$out" --block "$what"
# What the report reads: settings and logs, no samples and no weights of the model.
(cd "$out" && find . -maxdepth 3 \( -name '*.jsonl' -o -name config.toml -o -name data.json -o -name sweep.toml -o -path './recipes/*.toml' \) -print0 | sort -z) |
  tar -C "$out" --null --files-from=- --mtime=@0 --owner=0 --group=0 --numeric-owner -czf "$packed.partial"
mv "$packed.partial" "$packed"
echo "$packed"

# The steps of a script for a GPU: each is recorded when it ends, so that the script goes on with the next one when it is started again. A script sets four variables
# and then sources this file. `here` is the folder of the scripts, `out` the default folder of the records, and `file` the name of the file with all of them.
# `minutes` is the default limit of a call, empty for none.
# shellcheck shell=bash

: "${here:?}" "${out:?}" "${file:?}" "${minutes?}"
rapid='' device=cuda:0 until=''
quick=()
usage() {
  echo "usage: bash $0 [--rapid FILE] [--device cuda:N] [--out DIR] [--quick] [--until STEP] [--minutes N]" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=(--quick) && shift && continue ;;
    --rapid | --device | --out | --until | --minutes) [ $# -ge 2 ] || usage ;;
    *) usage ;;
  esac
  case $1 in
    --rapid) rapid=$2 ;;
    --device) device=$2 ;;
    --out) out=$2 ;;
    --until) until=$2 ;;
    --minutes) minutes=$2 ;;
  esac
  shift 2
done
[[ $minutes =~ ^(0|[1-9][0-9]{0,4})?$ ]] || usage
# The value of SECONDS at which no step begins any more; a year without a limit.
call_end=$((${minutes:-525600} * 60))
for candidate in "$here/rapid" "$here/../rapid" "${CARGO_TARGET_DIR:-$here/../target}/release/rapid" "$(command -v rapid || true)"; do
  [ -n "$rapid" ] || ! [ -x "$candidate" ] || rapid=$candidate
done
if ! [ -x "$rapid" ]; then
  echo "error: the program rapid is neither beside this script nor on the path; name it with --rapid FILE" >&2
  exit 2
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
# Records, logs and tables, packed after every step: a machine that is lent may be gone the next moment, and another one goes on from this file.
archive=${file%.json}.tgz
if ! [ -e "$out/steps" ] && [ -e "$out/$archive" ]; then
  tar -xzf "$out/$archive" -C "$out"
fi
mkdir -p "$out/steps" "$out/logs"
# What a step found, and why it failed.
result=$out/result.tmp why=$out/why.tmp
# The recorded steps, and how many the limit of the call has left.
names=() left=0

json_string() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "$(tr '\n\t' '  ' <<<"$text" | tr -d '\000-\037')"
}

# number KEY: the first value of a key in JSON on stdin.
number() {
  sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" | head -n 1
}

# limited COMMAND…: runs it in what is left of the step's time. stderr goes to the step's log.
limited() {
  local left=$((deadline - SECONDS)) status=0
  [ "$left" -gt 0 ] || left=1
  timeout --kill-after=10 "$left" "$@" 2>>"$log" || status=$?
  case $status in
    0) ;;
    124 | 137) echo "it took longer than its $((deadline - began)) s" >"$why" ;;
    *) [ -s "$why" ] || grep . "$log" | tail -n 3 >"$why" || true ;;
  esac
  return "$status"
}

# impossible REASON: ends a step that cannot be made here.
impossible() {
  state="not possible here"
  echo "$1" >"$why"
}

# begin NAME LIMIT: forgets the last step. The next one has LIMIT seconds; with --quick, where the device may be slow, 480.
begin() {
  [ ${#quick[@]} = 0 ] || set -- "$1" 480
  state=passed began=$SECONDS deadline=$((SECONDS + $2)) log=$out/logs/$1.txt note=''
  : >"$log"
  : >"$why"
  rm -f "$result"
}

# step NAME LIMIT COMMAND…: runs a step and records it, unless it is recorded or less than a third of its limit, in seconds, is left of the call. The command writes
# JSON to $result, and may call `impossible`.
step() {
  local name=$1 limit=$2 record=$out/steps/$1.json
  shift 2
  if ! [ -e "$record" ] && [ $((call_end - SECONDS)) -gt $((limit / 3)) ]; then
    begin "$name" "$limit"
    [ "$deadline" -lt "$call_end" ] || deadline=$call_end
    "$@" || [ "$state" != passed ] || state=failed
    # A step that the end of the call has stopped has not failed, so the next call makes it again.
    if [ "$state" != failed ] || [ "$SECONDS" -lt "$call_end" ]; then
      record_step "$name" "$record"
      pack
    fi
  fi
  if [ -e "$record" ]; then
    names+=("$name")
    show "$name" "$record"
  else
    left=$((left + 1))
  fi
  [ "$name" != "$until" ] || finish
}

# Packs what the steps have found, without runs of a sweep, which are larger.
pack() {
  (cd "$out" && find . -maxdepth 2 -type f ! -name '*.tmp' ! -name '*.tgz' | tar -czf "$archive.tmp" -T - && mv "$archive.tmp" "$archive")
}

# record_step NAME FILE
record_step() {
  {
    printf '{"step": "%s", "state": "%s", "seconds": %d' "$1" "$state" $((SECONDS - began))
    [ "$state" = passed ] || printf ', "reason": %s' "$(json_string "$(cat "$why")")"
    [ -z "$note" ] || printf ', "note": %s' "$(json_string "$note")"
    ! [ -s "$result" ] || printf ', "result": %s' "$(cat "$result")"
    printf '}\n'
  } >"$2.tmp"
  mv "$2.tmp" "$2"
}

# show NAME FILE: prints the line of a recorded step.
show() {
  local line
  line=$(head -n 1 "$2")
  printf '%-18s %-28s %4s s  %s\n' "$(sed -n 's/.*"state": "\([^"]*\)".*/\1/p' <<<"$line")" "$1" "$(number seconds <<<"$line")" \
    "$(sed -n 's/.*"\(reason\|note\)": "\(\([^"\\]\|\\.\)*\)".*/\2/p' <<<"$line" | cut -c 1-160)"
}

# Writes the file with all records, and ends: with 3 if steps are left, else with 1 if one has failed.
finish() {
  local name separator='' failed=0
  {
    printf '{"rapid": %s, "device": "%s", "quick": %s, "steps": [' "$(json_string "$("$rapid" --version)")" "$device" "$([ ${#quick[@]} = 0 ] && echo false || echo true)"
    for name in "${names[@]}"; do
      printf '%s\n' "$separator"
      cat "$out/steps/$name.json"
      separator=,
    done
    printf ']}\n'
  } >"$out/$file.tmp"
  mv "$out/$file.tmp" "$out/$file"
  rm -f "$result" "$why"
  pack
  for name in "${names[@]}"; do
    ! grep -q '"state": "failed"' "$out/steps/$name.json" || failed=$((failed + 1))
  done
  printf '\n%d steps, %d of them failed: %s\n' "${#names[@]}" "$failed" "$out/$file"
  if [ "$left" != 0 ]; then
    printf 'the limit of %d minutes is reached; steps left: %d. The same command continues with them (--minutes N sets the limit)\n' "$minutes" "$left"
    exit 3
  fi
  [ "$failed" = 0 ] || exit 1
  exit
}

# The machine, its GPU and the software: what explains a failure afterwards.
machine() {
  {
    nvidia-smi
    ldd --version | head -n 1
    command -v python3 nvcc ncu nsys compute-sanitizer
    echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}"
    ldconfig -p | grep -E 'libcuda|nvrtc|cublasLt|nccl'
  } >>"$log" 2>&1 || true
  note=$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader 2>/dev/null || true)
  limited "$rapid" doctor --device cpu --json >"$result"
}

# bench ARGUMENTS…: a measurement, and what is predicted for it on that card.
bench() {
  local measured predicted memory plan=cuda:plan
  measured=$(limited "$rapid" bench "$@" --device "$device" --json) || return
  ! grep -q '"device": .*H100' <<<"$measured" || plan=cuda:plan:h100
  predicted=$(limited "$rapid" bench "$@" --device "$plan" --json) || return
  printf '{"measured": %s, "predicted": %s}' "$measured" "$predicted" >"$result"
  note=$(printf '%.0f tokens/s; %.0f predicted' "$(number all_tokens_per_s <<<"$measured")" "$(number all_tokens_per_s <<<"$predicted")")
  # Only a GPU has memory of its own.
  memory=$(number device_peak_bytes <<<"$measured")
  [ -z "$memory" ] || note+=$(awk -v peak="$memory" -v predicted="$(number allocated_bytes <<<"$predicted")" \
    'BEGIN { printf "; %.1f GB of the GPU, %.1f predicted", peak / 1e9, predicted / 1e9 }')
}

# A model of two layers, for --quick.
tiny_config() {
  echo '{"model_type": "qwen2", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu"}'
}

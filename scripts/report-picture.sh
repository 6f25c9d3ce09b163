#!/usr/bin/env bash
# The pictures of README.md: the top of the report of a run, in light and dark, as docs/images/report-light.png and report-dark.png. It needs Chromium.
#   bash scripts/report-picture.sh runs/quickstart
set -euo pipefail

images=$(cd "$(dirname "$0")/.." && pwd)/docs/images
report=$(realpath "${1:?usage: bash scripts/report-picture.sh RUN}")/report.html
[ -f "$report" ] || { echo "error: there is no $report: rapid report $1" >&2; exit 1; }
mkdir -p "$images"
# What Chromium calls the preferred colour scheme.
for scheme in dark:0 light:1; do
  picture=$images/report-${scheme%:*}.png
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --blink-settings=preferredColorScheme="${scheme#*:}" --window-size=1100,700 \
    --screenshot="$picture.tmp.png" "file://$report" 2>/dev/null
  mv "$picture.tmp.png" "$picture"
done

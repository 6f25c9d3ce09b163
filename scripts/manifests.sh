#!/usr/bin/env bash
# Checks the Kubernetes manifests in deploy/kubernetes without a cluster, and the syntax of the batch scripts in deploy/slurm. The schemas come from PyPI, and are
# installed into a virtual environment in the build folder.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

venv=$(realpath -m "${CARGO_TARGET_DIR:-target}")/manifests
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --no-compile kubernetes-validate==1.37.0 kubeflow-trainer-api==2.3.0 pyyaml
"$venv/bin/python" -B deploy/kubernetes/check.py deploy/kubernetes/*.yaml
for script in deploy/slurm/*.sbatch; do
  bash -n "$script"
done

"""Checks the manifests of this folder without a cluster: python check.py FILE...

Kubernetes' own objects are checked against the API's schema, in which unknown fields are errors (kubernetes-validate). Those of Kubeflow Trainer are checked against the
classes of its API (kubeflow-trainer-api): a field that the classes do not know gets lost on the way through them. scripts/manifests.sh installs both.
"""

import json
import sys

import kubernetes_validate
import yaml
from kubeflow_trainer_api import models

KUBERNETES = "1.36"
KUBEFLOW = {
    "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}


def lost(given, known, path=""):
    """The paths of `given` that `known` does not have."""
    if isinstance(given, dict):
        known = known if isinstance(known, dict) else {}
        for key, value in given.items():
            if key not in known:
                yield f"{path}.{key}"
            else:
                yield from lost(value, known[key], f"{path}.{key}")
    elif isinstance(given, list):
        for number, value in enumerate(given):
            yield from lost(value, known[number] if number < len(known) else None, f"{path}[{number}]")
    elif given != known:
        yield f"{path} ({given!r} becomes {known!r})"


def check(manifest):
    """Raises if an object is not one of its kind."""
    group = manifest["apiVersion"].partition("/")[0]
    if group != "trainer.kubeflow.org":
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        return
    parsed = KUBEFLOW[manifest["kind"]].from_json(json.dumps(manifest))
    unknown = list(lost(manifest, parsed.to_dict()))
    if unknown:
        raise ValueError("unknown fields: " + ", ".join(unknown))


def main(files):
    """Checks all objects of the files, and refuses one with a misspelt field, so that a check that accepts anything is noticed."""
    for file in files:
        with open(file, encoding="utf-8") as text:
            manifests = list(yaml.safe_load_all(text))
        for manifest in manifests:
            check(manifest)
            spec = manifest["spec"]
            wrong = {**manifest, "spec": {**spec, "replicsa": 1}}
            try:
                check(wrong)
            except Exception:  # Each library has its own.
                print(f"{file}: {manifest['kind']} {manifest['metadata']['name']}")
            else:
                raise SystemExit(f"{file}: a misspelt field of {manifest['kind']} was accepted")


main(sys.argv[1:])

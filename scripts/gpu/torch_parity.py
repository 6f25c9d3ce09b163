"""Compares logits and gradients that `rapid doctor --export FOLDER` has written with PyTorch's, from the same weights.

python torch_parity.py FOLDER f32|bf16

Prints a line of JSON, and exits with 1 if they differ by more than rounding. In bf16 the reference is PyTorch in f32, and the distance is judged by that of
PyTorch's own bf16.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

# As many tokens are a prompt: the loss is the mean over the others.
PROMPT = 56
# Largest distance in f32, of logits and of a weight's gradient.
F32 = {"logits": 1e-4, "gradients": 1e-3}
# The same in bf16, in distances of PyTorch's own bf16.
BF16 = 2.0

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def computed(folder: Path, tokens: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Logits of every token, and the gradient of every weight."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(DEVICE)
    logits = model(tokens[None].to(DEVICE), use_cache=False).logits[0].float()
    logp = torch.log_softmax(logits[PROMPT - 1:-1], dim=-1)
    (-logp.gather(1, tokens[PROMPT:, None].to(DEVICE)).mean()).backward()
    gradients = {f"gradient.{name}": weight.grad.float().cpu() for name, weight in model.named_parameters()}
    return {"logits": logits.detach().cpu(), **gradients}


def distances(ours: dict, reference: dict) -> dict[str, float]:
    """The largest ‖ours − reference‖ / ‖reference‖ of the logits, and of a weight's gradient."""
    found = {"logits": 0.0, "gradients": 0.0}
    for name, exact in reference.items():
        kind = "logits" if name == "logits" else "gradients"
        distance = float((ours[name] - exact).norm() / exact.norm().clamp_min(1e-30))
        # NaN is greater than no limit, so it must not be lost here.
        found[kind] = max(found[kind], distance) if distance == distance else sys.float_info.max
    return found


def main() -> None:
    folder, dtype = Path(sys.argv[1]), sys.argv[2]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    ours = load_file(folder / "results.safetensors")
    tokens = ours["tokens"].long()
    exact = computed(folder / "model", tokens, torch.float32)
    found = distances(ours, exact)
    report = {"reference": f"torch {torch.__version__} on {DEVICE}", "distances": found}
    limits = F32
    if dtype == "bf16":
        theirs = distances(computed(folder / "model", tokens, torch.bfloat16), exact)
        report["torch_bf16"] = theirs
        limits = {kind: BF16 * distance for kind, distance in theirs.items()}
    report["limits"] = limits
    print(json.dumps(report))
    if any(not found[kind] <= limits[kind] for kind in found):
        sys.exit(f"the distances {found} are above the limits {limits}")


if __name__ == "__main__":
    main()

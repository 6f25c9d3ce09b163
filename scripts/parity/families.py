"""Makes small models of every family with random weights, with transformers, and checks the engine on them.

python families.py make FOLDER                    writes a checkpoint of each family to FOLDER/NAME, in shards, and FOLDER/prompts.json
python families.py check FOLDER NAME SAVED OUT    compares the engine's results (OUT, by its example `parity`) on FOLDER/NAME, and on the checkpoint
                                                  that it saved in SAVED after an update, with those of transformers on both
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

# If the two best logits are nearer than this, two correct implementations may rank them differently.
TIE = 1e-3
# Largest difference of a logit.
LOGIT = 1e-4
VOCABULARY = 300

COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
FAMILIES = {
    "llama3.2": LlamaConfig(**COMMON, tie_word_embeddings=True, rope_parameters=LLAMA3),
    "qwen2.5": Qwen2Config(**COMMON, tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "qwen2-sliding": Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=16, max_window_layers=3),
    "qwen3": Qwen3Config(**COMMON, head_dim=32),
    "gemma3": Gemma3TextConfig(**COMMON, head_dim=32, sliding_window=16, query_pre_attn_scalar=32),
    "gemma3-all": Gemma3TextConfig(
        **COMMON,
        head_dim=32,
        sliding_window=16,
        query_pre_attn_scalar=20,
        # transformers 5.23 reads `attn_logit_softcapping` and does not use it. candle uses it, so the tests against candle have it.
        final_logit_softcapping=3.0,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"] * 2 + ["sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
}


def bytes_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with three special tokens and one token per byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<bos>", "<eos>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>")


def make(folder: Path) -> None:
    torch.manual_seed(0)
    for name, config in FAMILIES.items():
        model = AutoModelForCausalLM.from_config(config)
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                # Norms and biases that differ from their initial values.
                parameter.data += 0.2 * torch.randn_like(parameter)
            elif "embed" not in parameter_name:
                parameter.data = torch.randn_like(parameter) / parameter.shape[1] ** 0.5
            else:
                parameter.data = 0.3 * torch.randn_like(parameter)
        model.save_pretrained(folder / name, max_shard_size="200KB")
        if not (folder / name / "model.safetensors.index.json").exists():
            sys.exit(f"{name} was not saved in shards")
        bytes_tokenizer().save_pretrained(folder / name)
    prompts = [torch.randint(VOCABULARY, (n,)).tolist() for n in (2, 15, 16, 17, 40, 90)]
    (folder / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")


@torch.no_grad()
def compare(what: str, path: Path, prompts: list[list[int]], found: list[dict]) -> torch.nn.Module:
    model, loading = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    if loading["missing_keys"] or loading["unexpected_keys"] or loading["mismatched_keys"]:
        sys.exit(f"{what}: transformers found missing or unexpected weights: {loading}")
    model.eval()
    worst, ties = 0.0, 0
    for prompt, ours in zip(prompts, found, strict=True):
        theirs = model(torch.tensor([prompt]), use_cache=False).logits[0]
        worst = max(worst, float((torch.tensor(ours["logits"]) - theirs).abs().max()))
        tokens = prompt + ours["greedy"]
        rows = model(torch.tensor([tokens]), use_cache=False).logits[0][len(prompt) - 1:-1]
        for i, (row, token) in enumerate(zip(rows, ours["greedy"], strict=True)):
            gap = float(row.max() - row[token])
            if gap > TIE:
                sys.exit(f"{what}: after {len(prompt)} tokens, token {i} is {token}, {gap:.4f} below the likeliest")
            ties += gap > 0
    if not worst < LOGIT:
        sys.exit(f"{what}: a logit is off by {worst:.2e}")
    tokens = sum(len(ours["greedy"]) for ours in found)
    print(f"{what}: logits within {worst:.1e}, {tokens} greedy tokens, {ties} of them ties")
    return model


def check(folder: Path, name: str, saved: Path, out: Path) -> None:
    prompts = json.loads((folder / "prompts.json").read_text(encoding="utf-8"))
    found = json.loads(out.read_text(encoding="utf-8"))
    before = compare(f"{name}, saved by transformers", folder / name, prompts, found["model"])
    after = compare(f"{name}, trained and saved by the engine", saved, prompts, found["saved"])
    same = [n for (n, a), b in zip(before.named_parameters(), after.parameters(), strict=True) if torch.equal(a, b)]
    if same:
        sys.exit(f"{name}: the update did not change {same[0]}")
    if type(before) is not type(after):
        sys.exit(f"{name}: saved as {type(after).__name__}, was {type(before).__name__}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder]:
            make(Path(folder))
        case ["check", folder, name, saved, out]:
            check(Path(folder), name, Path(saved), Path(out))
        case _:
            sys.exit(__doc__)

"""The yardstick: transformers in f32 on the CPU, from the same file that the engine reads."""

import hashlib
from pathlib import Path

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer


class Reference:
    """A model and its tokenizer, from a GGUF file or from a folder in Hugging Face's form."""

    def __init__(self, path: Path):
        if path.is_dir():
            self.tokenizer = AutoTokenizer.from_pretrained(path)
            self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        else:
            where, options = path.parent, {"gguf_file": path.name}
            self.tokenizer = AutoTokenizer.from_pretrained(where, **options)
            self.model = AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32, **options)
            # The file names its pre-tokenizer, "smollm": GPT-2's, after every digit was set apart. The import of
            # transformers ignores the name and leaves GPT-2's alone, which joins other spaces: "in  12" then ends in
            # two tokens of one space instead of one of two. The model was trained with the digits apart.
            self.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
            ])
        self.model.eval()

    def encode(self, text: str) -> list[int]:
        """Token ids; special tokens written in the text are read as such, none is added."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def chat(self, messages: list[dict]) -> str:
        """The model's own chat template, ready for an answer."""
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    @torch.no_grad()
    def logits(self, tokens: list[int]) -> torch.Tensor:
        """Logits of the token after each position: (positions, vocabulary)."""
        return self.model(torch.tensor([tokens]), use_cache=False).logits[0].float()

    def greedy(self, prompt: list[int], count: int) -> dict:
        """The likeliest `count` next tokens, going on beyond an end token, each with its log-probability at temperature 1
        and the gap between the two best logits at its place (a gap near 0 means that either could have come)."""
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(self.logits(tokens)[-1].argmax()))
        return {"tokens": tokens[len(prompt):], **self.measure(prompt, tokens[len(prompt):])}

    def measure(self, prompt: list[int], completion: list[int]) -> dict:
        """Log-probability of each given token, and the gap of the two best logits at its place."""
        places = self.logits(prompt + completion)[len(prompt) - 1:-1]
        logp = torch.log_softmax(places.double(), dim=-1)
        best = places.topk(2, dim=-1).values
        return {
            "logp": [round(float(logp[i, t]), 6) for i, t in enumerate(completion)],
            "gap": [round(float(b[0] - b[1]), 6) for b in best],
        }


def sha256(path: Path) -> str:
    """Of a file, hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

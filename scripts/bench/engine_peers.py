"""Measures other programs on the workloads of `rapid bench`, on the GPU if PyTorch sees one, else on the CPU. Each run prints one measurement, as JSON on the last line of standard output.

    engine_peers.py export GGUF FOLDER DTYPE          the model as a Hugging Face checkpoint
    engine_peers.py vllm|transformers FOLDER DTYPE PROMPTS SAMPLES PROMPT_TOKENS TOKENS     a rollout
    engine_peers.py llama.cpp|openvino GGUF DTYPE PROMPTS SAMPLES PROMPT_TOKENS TOKENS      a rollout, with SAMPLES = 1
    engine_peers.py torch FOLDER DTYPE SEQUENCES TOKENS MIN_TOKENS MICRO_BATCH               a policy-gradient step
    engine_peers.py trl FOLDER DTYPE PROMPTS SAMPLES TOKENS [TEMPLATE]                       a GRPO iteration
"""

import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path


def report(**figures):
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({**figures, "peak_bytes": peak * 1024, "device_peak_bytes": device_peak()}), flush=True)


def device_peak():
    """The most bytes of the GPU's memory that PyTorch's tensors took; None on a CPU. vLLM takes as much as it may for its cache."""
    import torch

    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None


def prompts_of(vocabulary, count, length):
    """Meaningless token ids, the same as those of `rapid bench`."""
    return [[vocabulary // 4 + (n * 7919 + i * 104_729) % (vocabulary // 2) for i in range(length)] for n in range(count)]


def model_of(folder, dtype):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).to(device())


def device():
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def seconds_since(began):
    """Seconds until the device has finished."""
    import torch

    if device() == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def export(gguf, folder, dtype):
    sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))
    import torch
    from reference import Reference
    from transformers import AutoModelForCausalLM

    reference = Reference(Path(gguf))
    # transformers refuses to save a model that was loaded from a GGUF file, so the weights are copied into another one.
    config = reference.model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(reference.model.state_dict())
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    reference.tokenizer.save_pretrained(folder)


def vllm(folder, dtype, prompts, samples, prompt_tokens, tokens):
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM, SamplingParams

    model = LLM(folder, dtype=dtype, max_model_len=prompt_tokens + tokens + 16, max_num_seqs=max(256, prompts * samples), disable_log_stats=True)
    vocabulary = json.loads((Path(folder) / "config.json").read_text())["vocab_size"]
    requests = [{"prompt_token_ids": ids} for ids in prompts_of(vocabulary, prompts, prompt_tokens)]
    sampling = SamplingParams(n=samples, temperature=1.0, max_tokens=tokens, ignore_eos=True, logprobs=0, detokenize=False)
    model.generate(requests[:1], SamplingParams(n=samples, max_tokens=4, ignore_eos=True, logprobs=0), use_tqdm=False)
    best = None
    for _ in range(2):
        model.reset_prefix_cache()
        began = time.perf_counter()
        done = model.generate(requests, sampling, use_tqdm=False)
        seconds = time.perf_counter() - began
        sampled = sum(len(c.token_ids) for r in done for c in r.outputs)
        assert sampled == prompts * samples * tokens, sampled
        best = min(best or seconds, seconds)
    report(seconds=best, tokens_per_s=sampled / best)


def transformers(folder, dtype, prompts, samples, prompt_tokens, tokens):
    import torch

    model = model_of(folder, dtype).eval()
    ids = torch.tensor(prompts_of(model.config.vocab_size, prompts, prompt_tokens), device=device())

    def generate(length):
        with torch.inference_mode():
            return model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                num_return_sequences=samples, min_new_tokens=length, max_new_tokens=length, pad_token_id=0)

    generate(2)
    began = time.perf_counter()
    done = generate(tokens)
    seconds = seconds_since(began)
    sampled = (done.shape[1] - prompt_tokens) * done.shape[0]
    report(seconds=seconds, tokens_per_s=sampled / seconds)


def llama_cpp(gguf, dtype, prompts, samples, prompt_tokens, tokens):
    """llama.cpp's own benchmark of batches, which samples nothing and computes no log-probabilities. Each prompt is another one."""
    assert samples == 1, samples
    # Its documented settings: a native build, which repacks weights, flash attention, a thread per processor, and a context that just holds all sequences. The
    # defaults of its README: batches of 2,048 tokens in parts of 512, and a cache in f16.
    done = subprocess.run(
        [Path(sys.prefix) / "llama.cpp/bin/llama-batched-bench", "--model", gguf, "--output-format", "jsonl", "-npp", str(prompt_tokens), "-ntg", str(tokens),
         "-npl", str(prompts), "--ctx-size", str(prompts * (prompt_tokens + tokens)), "--threads", os.environ["OMP_NUM_THREADS"], "--flash-attn", "on"],
        stdout=subprocess.PIPE, check=True, text=True)
    figures = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    seconds = figures["t_pp"] + figures["t_tg"]
    report(weights=Path(gguf).stem, seconds=seconds, tokens_per_s=prompts * tokens / seconds)


def openvino(gguf, dtype, prompts, samples, prompt_tokens, tokens):
    import numpy
    import openvino_genai as genai
    from openvino import Tensor

    assert samples == 1, samples
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 4
    scheduler.max_num_seqs = prompts
    # The documented defaults: prompts and new tokens share batches of 256 tokens (dynamic split fuse), a cache in 8 bits. A processor without bf16 computes in f32.
    settings = {"INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]), "INFERENCE_PRECISION_HINT": "f32" if dtype == "float32" else "bf16"}
    model = genai.ContinuousBatchingPipeline(gguf, scheduler, "CPU", settings)

    def generate(count, length):
        sampling = genai.GenerationConfig(max_new_tokens=length, ignore_eos=True, do_sample=True, temperature=1.0, logprobs=1)
        ids = [Tensor(numpy.array([row])) for row in prompts_of(49_152, count, prompt_tokens)]
        return sum(len(d.m_generation_ids[0]) for d in model.generate(ids, [sampling] * count))

    generate(1, 4)
    began = time.perf_counter()
    sampled = generate(prompts, tokens)
    seconds = time.perf_counter() - began
    assert sampled == prompts * tokens, sampled
    report(weights=Path(gguf).stem, seconds=seconds, tokens_per_s=sampled / seconds)


def torch_step(folder, dtype, sequences, tokens, min_tokens, micro_batch):
    """The policy-gradient step as it is usually written: micro-batches, each padded to its longest sequence."""
    import torch

    torch.manual_seed(0)
    random.seed(0)
    model = model_of(folder, dtype).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-9, weight_decay=0.0)
    lengths = [random.randint(min_tokens, tokens) for _ in range(sequences)]
    rows = [[1 + (7919 * n + 104_729 * i) % (model.config.vocab_size - 1) for i in range(length)] for n, length in enumerate(lengths)]

    def step():
        for start in range(0, sequences, micro_batch):
            part = rows[start:start + micro_batch]
            longest = max(map(len, part))
            ids = torch.tensor([row + [0] * (longest - len(row)) for row in part], device=device())
            mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in part], device=device())
            logits = model(ids, attention_mask=mask).logits[:, :-1].float()
            logp = torch.gather(torch.log_softmax(logits, -1), 2, ids[:, 1:, None])[..., 0]
            loss = -(0.01 * logp * mask[:, 1:]).sum() / sequences
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    step()
    best = float("inf")
    for _ in range(2):
        began = time.perf_counter()
        step()
        best = min(best, seconds_since(began))
    report(seconds=best, tokens_per_s=sum(lengths) / best, tokens=sum(lengths))


def trl(folder, dtype, prompts, samples, tokens, template=None):
    """An iteration on questions as they stand, or in a template (datasets/templates/), with which all prompts begin alike."""
    import tempfile

    from datasets import Dataset
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    stamps = []

    class Stamp(TrainerCallback):
        def on_step_begin(self, *_, **__):
            stamps.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            stamps[-1] = seconds_since(stamps[-1])

    questions = [f"What is {n} times {n + 3}? Think step by step, then give the result as a number." for n in range(prompts * 4)]
    if template:
        import tomllib

        form = tomllib.loads(Path(template).read_text())["text"]
        questions = [form.replace("{question}", question) for question in questions]
    data = Dataset.from_dict({"prompt": questions})
    with tempfile.TemporaryDirectory() as out:
        settings = GRPOConfig(
            output_dir=out, use_cpu=device() == "cpu", bf16=False, per_device_train_batch_size=prompts * samples // 4, gradient_accumulation_steps=4,
            num_generations=samples, max_completion_length=tokens, max_steps=3, beta=0.0, learning_rate=1e-9, report_to=[], save_strategy="no",
            gradient_checkpointing=False, generation_kwargs={"min_new_tokens": tokens})
        trainer = GRPOTrainer(
            model=model_of(folder, dtype), processing_class=AutoTokenizer.from_pretrained(folder), args=settings, train_dataset=data,
            reward_funcs=lambda completions, **_: [float(len(set(c))) for c in completions], callbacks=[Stamp()])
        trainer.train()
    report(seconds=min(stamps[1:]), all_seconds=stamps)


def main():
    what, *arguments = sys.argv[1:]
    arguments = [int(a) if a.isdigit() else a for a in arguments]
    {"export": export, "vllm": vllm, "transformers": transformers, "llama.cpp": llama_cpp, "openvino": openvino, "torch": torch_step, "trl": trl}[what](*arguments)


if __name__ == "__main__":
    main()

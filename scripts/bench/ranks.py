"""Measures runs of several ranks on this machine, and over networks of given rates: python ranks.py RAPID RAPID_VERIFIER FOLDER

Every run trains SmolLM2-135M-Instruct with the same settings, and must leave the same metrics and weights. The script prints the medians of the updates after the first: seconds of
forward and backward pass and AdamW ("computing"), of the exchange, and of sampling a phase. Beside them is the highest resident memory of rank 0.

The networks are two namespaces joined by a pair of virtual devices. `tc` limits their rate, so only root can make them; one rank runs in each. The model of their time is
what two ranks compute without a network, plus the bytes that a rank sends in an update divided by the rate.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

RAPID, VERIFIER, FOLDER = (Path(argument).absolute() for argument in sys.argv[1:4])
UPDATES = 8
PORT = 8747
NAMES = ("rapid-a", "rapid-b")
ADDRESSES = ("10.90.0.1", "10.90.0.2")
SETTINGS = {
    "run.slices": 4,
    "run.updates": UPDATES,
    "run.checkpoint_every": UPDATES,
    "algorithm.n_step": 64,
    "algorithm.h": 2,
    "eval.samples": 0,
}
MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none"]


def train(name, launcher, threads, within=()):
    """Trains into FOLDER/name, and returns its figures."""
    out = FOLDER / name
    command = [*within, *launcher, str(RAPID), "train", "--recipe", "quickstart", "--device", "cpu", "--threads", str(threads)]
    command += ["--verifier", f"http://127.0.0.1:{PORT}", "--out", str(out)]
    command += [f"--set={key}={value}" for key, value in SETTINGS.items()]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    lines = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
    later, phases = lines[1:], [line for line in lines[1:] if line["sampled_tokens"]]
    clock = [json.loads(line) for line in (out / "clock.jsonl").read_text().splitlines()]
    digest = hashlib.sha256((out / "metrics.jsonl").read_bytes())
    for file in sorted((out / "checkpoints/last").iterdir()):
        digest.update(file.read_bytes())
    return {
        "name": name,
        "computing": statistics.median(line["forward"] + line["backward"] + line["optimiser"] for line in later),
        "exchange": statistics.median(line.get("exchange", 0.0) for line in later),
        "sampling": statistics.median(line["inference"] for line in phases),
        "memory": max(max(line["memory"].values(), default=0) for line in clock),
        "digest": digest.hexdigest(),
    }


class Service:
    """A verifier, in a network namespace if one is given."""

    def __init__(self, within=()):
        self.within = list(within)

    def __enter__(self):
        command = [*self.within, str(VERIFIER), "serve", "--listen", f"127.0.0.1:{PORT}", "--no-disk-cache"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ready = [*self.within, sys.executable, "-c", f"import urllib.request as r; r.urlopen('http://127.0.0.1:{PORT}/healthz')"]
        for _ in range(300):
            if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
                return self
            time.sleep(0.2)
        raise SystemExit("the verifier does not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def network(gigabit):
    """Two namespaces with a network of this rate; returns mpirun's command for a rank in each."""
    run = lambda line: subprocess.run(line.split(), check=True)
    for name in NAMES:
        run(f"ip netns add {name}")
    run(f"ip link add rapid-veth-a netns {NAMES[0]} type veth peer name rapid-veth-b netns {NAMES[1]}")
    for name, address, device in zip(NAMES, ADDRESSES, ("rapid-veth-a", "rapid-veth-b")):
        run(f"ip -n {name} address add {address}/24 dev {device}")
        run(f"ip -n {name} link set {device} up")
        run(f"ip -n {name} link set lo up")
        run(f"tc -n {name} qdisc add dev {device} root tbf rate {gigabit}gbit burst 4mb latency 100ms")
    # In place of ssh: the command for the other host runs in the other namespace.
    agent = FOLDER / "agent"
    agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {NAMES[1]} sh -c "$*"\n')
    agent.chmod(0o755)
    only = [f"{ADDRESSES[0]}/24", "--mca", "oob_tcp_if_include", f"{ADDRESSES[0]}/24"]
    hosts = ",".join(f"{address}:1" for address in ADDRESSES)
    return [*MPIRUN, "-n", "2", "--host", hosts, "--mca", "plm_rsh_agent", str(agent), "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", *only]


def no_network():
    """Removes the namespaces, with what is in them."""
    for name in NAMES:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def main():
    """Makes all runs and prints a table."""
    ranks = [*MPIRUN, "--oversubscribe", "-n", "2"]
    runs = []
    with Service():
        # Each twice, in reverse order the second time.
        kinds = [("1 rank, 1 thread", [], 1), ("1 rank, 2 threads", [], 2), ("2 ranks, 1 thread each", ranks, 1)]
        for turn, order in enumerate([kinds, kinds[::-1]]):
            for name, launcher, threads in order:
                runs.append({**train(f"{name} {turn}".replace(",", "").replace(" ", "-"), launcher, threads), "kind": name})
    if os.geteuid() == 0:
        for gigabit in (1, 10):
            no_network()
            within = ["ip", "netns", "exec", NAMES[0]]
            try:
                launcher = network(gigabit)
                with Service(within):
                    runs.append({**train(f"network-{gigabit}", launcher, 1, within), "kind": f"2 ranks, {gigabit} Gbit/s"})
            finally:
                no_network()
    table = {}
    for run in runs:
        table.setdefault(run["kind"], []).append(run)
    mean = lambda kind, key: statistics.mean(run[key] for run in table[kind])
    alone = [mean("1 rank, 2 threads", key) for key in ("computing", "sampling")]
    print("| | update, s | of it exchange | sampling, s | update ÷ 1 rank of 2 threads | sampling ÷ | memory of rank 0, GB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind in table:
        computing, exchange, sampling, memory = (mean(kind, key) for key in ("computing", "exchange", "sampling", "memory"))
        update = computing + exchange
        print(
            f"| {kind} | {update:.2f} | {exchange:.2f} ({100 * exchange / update:.0f}%) | {sampling:.2f} | {update / alone[0]:.2f} | {sampling / alone[1]:.2f} | {memory / 1e9:.2f} |"
        )
    weights = 4 * 134.5e6
    two = "2 ranks, 1 thread each"
    for gigabit in (1, 10):
        kind = f"2 ranks, {gigabit} Gbit/s"
        if kind in table:
            # Half of the gradient and half of the weights.
            predicted = mean(two, "computing") + mean(two, "exchange") + weights / (gigabit * 1e9 / 8)
            update = mean(kind, "computing") + mean(kind, "exchange")
            print(f"\nAt {gigabit} Gbit/s an update takes {update:.2f} s; predicted {predicted:.2f} s ({100 * (update / predicted - 1):+.0f}%).")
    digests = {run["digest"] for run in runs}
    print(f"\n{len(runs)} runs left {'the same' if len(digests) == 1 else 'DIFFERENT'} metrics and checkpoints.")
    if len(digests) != 1:
        raise SystemExit(1)


main()

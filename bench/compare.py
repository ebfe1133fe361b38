#!/usr/bin/env python3
"""Tokens per second of one rank, two pipeline ranks, two tensor ranks, and llama.cpp's llama-bench,
on one model, with the same threads for each rank, in one run. Prints a table.

    make bench
    make bench ARGS="--model FILE --threads 1 --repeats 3"
    make bench ARGS="--size 1.2b"     a model with random weights, made for the occasion
    make bench ARGS="--link 1gbit --streams 4"

The columns are measured in turn, so that all see the same machine; each figure is the median.
"""
import argparse
import contextlib
import functools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "exo"
GPU = os.environ.get("GPU", "")  # As in tools/deps: the build of llama.cpp for it.
LLAMA_BENCH = ROOT / ".deps" / "llama" / f"build{GPU and '-' + GPU}" / "bin" / "llama-bench"
DEMO_MODEL = ROOT / ".deps" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MAKE_GGUF = ROOT.parent / "shared" / "tools" / "make_gguf.py"
NETLAB = ROOT.parent / "shared" / "tools" / "netlab"
GGUF_PY = ROOT / ".deps" / "llama" / "source" / "gguf-py"
SIZES = {  # Shapes of llama models; Q4_0.
    "0.4b": "--dim 1024 --layers 16 --ffn 4096 --heads 16 --kv 8",
    "1.2b": "--dim 2048 --layers 16 --ffn 8192 --heads 32 --kv 8",
}
RUN_S = 1800


def run(command, python_path=""):
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | {"PYTHONPATH": str(python_path)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def llama_bench(options):
    """Prefill and decode of llama.cpp in one process, as llama-bench measures them."""
    output = run(
        [LLAMA_BENCH, "--model", options.model, "--threads", options.threads, "--output", "json"]
        + ["--n-prompt", options.prompt, "--n-gen", options.generate, "--repetitions", 1]
    )
    rows = {row["n_gen"] == 0: row["avg_ts"] for row in json.loads(output)}
    return rows[True], rows[False]


def exo(ranks, sharding, *flags):
    def measure(options):
        output = run(
            [PROGRAM, "runner", "--bench", options.model, "--ranks", ranks]
            + ["--sharding", sharding, "--threads", options.threads]
            + ["--prompt", options.prompt, "--generate", options.generate, *flags]
        )
        figures = json.loads(output)
        return figures["prefill_tokens_per_second"], figures["decode_tokens_per_second"]

    return measure


@contextlib.contextmanager
def lab(rate):
    """Two hosts on a link of that rate; yields the flags that put a rank on each."""
    if not NETLAB.exists():
        sys.exit(f"--link needs {NETLAB}")
    environment = os.environ | {"NETLAB": f"bench{os.getpid() % 10000}h"}
    netlab = functools.partial(subprocess.run, env=environment, check=True)
    netlab([NETLAB, "up", "2", rate])
    try:
        name = environment["NETLAB"]
        yield [f"--at={name}{host}=10.77.0.{host}" for host in (1, 2)]
    finally:
        netlab([NETLAB, "down"])


LLAMA = "llama.cpp (llama-bench)"
ONE_RANK = "exo, 1 rank"


def candidates(options, places):
    found = {
        LLAMA: llama_bench,
        ONE_RANK: exo(1, "pipeline"),
        "exo, 2 pipeline ranks": exo(2, "pipeline"),
        "exo, 2 tensor ranks": exo(2, "tensor"),
    }
    if places:
        for sharding in ("pipeline", "tensor"):
            found[f"exo, 2 {sharding} ranks, {options.link}"] = exo(2, sharding, *places)
    if options.streams > 1:
        streams = f"exo, 1 rank, {options.streams} streams"
        found[streams] = exo(1, "pipeline", "--streams", options.streams)
    return found


def make_model(size):
    """A GGUF of that size in .deps/models-bench, made once."""
    if not MAKE_GGUF.exists():
        sys.exit(f"--size needs {MAKE_GGUF}")
    target = ROOT / ".deps" / "models-bench" / f"random-{size}-q4_0.gguf"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        run([sys.executable, MAKE_GGUF, DEMO_MODEL, target, *SIZES[size].split()], GGUF_PY)
    return target


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def print_table(results):
    medians = {
        name: [statistics.median(values) for values in zip(*runs)] for name, runs in results.items()
    }
    width = max(map(len, medians))
    print(f"| {'':{width}} | prefill | / llama.cpp | / 1 rank | decode | / llama.cpp | / 1 rank |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, figures in medians.items():
        cells = [
            f"{figure:7.1f} | {figure / llama:5.2f} | {figure / one_rank:5.2f}"
            for figure, llama, one_rank in zip(figures, medians[LLAMA], medians[ONE_RANK])
        ]
        print(f"| {name:{width}} | {cells[0]} | {cells[1]} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=pathlib.Path, default=DEMO_MODEL)
    parser.add_argument("--size", choices=SIZES, help="make a model instead")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1, help="also so many answers in one batch")
    parser.add_argument("--link", help="also over a link of that rate, as 1gbit (root, netlab)")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there too")
    options = parser.parse_args()
    if options.size:
        options.model = make_model(options.size)
    with lab(options.link) if options.link else contextlib.nullcontext() as places:
        chosen = candidates(options, places)
        results = {name: [] for name in chosen}
        for _ in range(options.repeats):
            for name, measure in chosen.items():
                results[name].append(measure(options))
    print(
        f"{options.model.name}: prompt {options.prompt}, generated {options.generate}, "
        f"{options.threads} thread(s) a rank, tokens/s, median of {options.repeats}; "
        f"{processor()}\n"
    )
    print_table(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

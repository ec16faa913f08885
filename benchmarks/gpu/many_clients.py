"""Tokens per second of `mada serve` with many clients, against `mada evaluate` on the same debates.

    MADA_DATA=... python benchmarks/gpu/many_clients.py --model NAME [--clients 256] [--problems 1024]

The untrained team of three generators and three critics debates problems of GSM8K in two rounds. The evaluation knows
all debates beforehand; the clients, in a closed loop, ask for the next one when they have an answer, over HTTP. Both
are timed from the first request to the last answer, the start of the engine left out. Half of the clients stream.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serving import mada

MAX_TOKENS = 512


def evaluated(words: list[str], problems: int, folder: Path) -> tuple[float, int]:
    """Return seconds and tokens of an evaluation's debates."""
    command = [sys.executable, "-m", "mada", "evaluate", *words, "--benchmarks", "gsm8k", "--systems", "debate"]
    command += ["--problems", str(problems), "--seeds", "1", "--out", str(folder)]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    lines = [json.loads(line) for line in (folder / "records" / "effort.jsonl").read_text().splitlines()]
    return sum(line["seconds"] for line in lines), sum(line["generated_tokens"] for line in lines)


async def served(url: str, questions: list[str], *, clients: int) -> tuple[float, int, list[float], list[str]]:
    """Return seconds, tokens, latencies and errors of so many clients."""
    numbers, latencies, errors, tokens = count(), list[float](), list[str](), list[int]()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)

    async def client(connection: httpx2.AsyncClient, stream: bool) -> None:
        while (number := next(numbers)) < len(questions):
            body = {
                "model": "mada",
                "messages": [{"role": "user", "content": questions[number]}],
                "seed": number,
                "max_tokens": MAX_TOKENS,
            }
            if stream:
                body |= {"stream": True, "stream_options": {"include_usage": True}}
            begun = time.monotonic()
            reply = await connection.post("/v1/chat/completions", json=body)
            if reply.status_code != 200:
                errors.append(reply.text[:200])
                continue
            text = reply.text.split("data: ")[-2] if stream else reply.text
            made = json.loads(text)
            if "usage" not in made:
                errors.append(text[:200])
                continue
            latencies.append(time.monotonic() - begun)
            tokens.append(made["usage"]["completion_tokens"])

    async with httpx2.AsyncClient(base_url=url, timeout=600, trust_env=False, limits=limits) as connection:
        started = time.monotonic()
        await asyncio.gather(*(client(connection, number % 2 == 0) for number in range(clients)))
        return time.monotonic() - started, sum(tokens), sorted(latencies), errors


def main() -> None:
    arguments = argparse.ArgumentParser(description="Tokens per second of a server and of an evaluation.")
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--clients", type=int, default=256)
    arguments.add_argument("--problems", type=int, default=1024)
    arguments.add_argument("--window", type=int, default=4096)
    given = arguments.parse_args()
    from mada.problems import load_problems

    questions = [problem.question for problem in load_problems("gsm8k")][: given.problems]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rates: dict[str, float] = {}
        words = ["--model", given.model, "--window", str(given.window), "--max-new-tokens", str(MAX_TOKENS)]
        for repeat in range(2):
            seconds, tokens = evaluated(words, given.problems, folder / f"evaluation-{repeat}")
            rates["evaluate"] = tokens / seconds
            print(f"mada evaluate: {tokens:,} tokens in {seconds:.1f} s: {tokens / seconds:,.0f} tokens/s", flush=True)
            with mada(folder / f"log-{repeat}", *words) as (url, _):
                # The engine captures its CUDA graphs with the first requests, which an evaluation does too.
                for run in range(2):
                    seconds, tokens, latencies, errors = asyncio.run(served(url, questions, clients=given.clients))
                    rate = tokens / seconds
                    p50, p99 = (latencies[int(share * len(latencies))] for share in (0.5, 0.99))
                    share = rate / rates["evaluate"]
                    print(
                        f"mada serve, {given.clients} clients, pass {run + 1}: {tokens:,} tokens in {seconds:.1f} s: "
                        f"{rate:,.0f} tokens/s ({share:.2f} of the evaluation's), {len(errors)} errors, "
                        f"p50 {p50:.1f} s, p99 {p99:.1f} s",
                        *errors[:3],
                        flush=True,
                    )


if __name__ == "__main__":
    main()

"""Debates per second and their latency under load: `mada serve`, a server of one request at a time, and vLLM.

    python benchmarks/serving.py [--clients 1 8 64] [--seconds 20] [--repeats 3] [--vllm .venv-vllm/bin/python]

Clients in a closed loop (each asks its next question as soon as it has an answer) have the untrained team of three
generators and three critics on the embedded model debate problems of the built-in benchmarks in two rounds, replies of
at most 128 tokens at temperature 1. Three ways to the same debates:

- mada: `mada serve`.
- one at a time: the same server with `--at-once 1`, as a handler without a shared batch would be. Its three agents are
  still one batch, which flatters it.
- vllm: vLLM's OpenAI server (its CPU build) with the same model, float32 too, and the debate as a script of the client:
  three requests for completions, then three with what these said in mada's own debate prompt, then mada's vote. The
  script costs the client's core time, of which a debate through `mada serve` needs none; that is part of its price.

Servers run one after another within a round, each alone on the machine, and rounds are repeated; a ratio is the median
of the rounds' ratios. Latencies are of all rounds together. Each server may use all cores, which clients share, and
sample 256 completions at a time.
"""

import argparse
import asyncio
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx2

from mada.debate.prompts import Prompts
from mada.debate.transcript import Response
from mada.debate.verdict import vote
from mada.export.folder import save_tokenizer
from mada.grading import Grader
from mada.grading.extraction import extract_answer
from mada.models.loading import resolve_model
from mada.problems import load_problems

MODEL = "mada-nano"
MAX_TOKENS = 128
ROWS = 256  # as many as vLLM has by default
WARM_UP = 6.0  # seconds; vLLM compiles for batch sizes that it has not seen
BENCHMARKS = ("abacus-easy", "abacus-medium", "abacus-hard")
ROOT = Path(__file__).resolve().parents[1]

Ask = Callable[[httpx2.AsyncClient, str, int], Awaitable[int]]
"""Has a question debated, and returns the tokens generated."""


@contextmanager
def process(
    command: list[str], *, log: Path, address: Callable[[str], str | None], **environment: str
) -> Iterator[str]:
    """Run a server until the block ends; `address` finds its address in the log."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 400
        while (found := address(log.read_text(errors="replace"))) is None:
            if server.poll() is not None or time.monotonic() > until:
                sys.exit(f"a server did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)
        yield found
    finally:
        os.killpg(server.pid, 9)
        server.wait()


@contextmanager
def mada(log: Path, *words: str) -> Iterator[tuple[str, Ask]]:
    """Serve with mada."""
    command = [sys.executable, "-m", "mada", "serve", "--port", "0", "--queue", "4096"]
    command += ["--threads", str(os.cpu_count()), "--rows", str(ROWS), *words]

    def address(text: str) -> str | None:
        found = re.search(r" at (http://\S+)/v1,", text)
        return found[1] if found else None

    async def ask(client: httpx2.AsyncClient, question: str, seed: int) -> int:
        body = {
            "model": "mada",
            "messages": [{"role": "user", "content": question}],
            "seed": seed,
            "max_tokens": MAX_TOKENS,
        }
        reply = await client.post("/v1/chat/completions", json=body)
        return reply.raise_for_status().json()["usage"]["completion_tokens"]

    with process(command, log=log, address=address) as url:
        yield url, ask


@contextmanager
def vllm(log: Path, python: str, grader: Grader) -> Iterator[tuple[str, Ask]]:
    """Serve with vLLM, and debate in the client."""
    port, tokenizer = "8766", log.with_name("tokenizer")
    # As `mada export` does it: vLLM's own reading of the model's files makes other tokens, and other replies.
    save_tokenizer(MODEL, None, tokenizer)
    command = [
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", resolve_model(MODEL)),
        *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", port, "--dtype", "float32"),
        *(
            "--tokenizer",
            str(tokenizer),
            "--max-model-len",
            "1024",
            "--generation-config",
            "vllm",
            "--disable-log-stats",
        ),
    ]
    prompts = Prompts()

    def address(text: str) -> str | None:
        return f"http://127.0.0.1:{port}" if "Application startup complete" in text else None

    async def reply_to(client: httpx2.AsyncClient, prompt: str) -> Response:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": MAX_TOKENS,
            "temperature": 1.0,  # and no seed: the CPU build has none
        }
        made = (await client.post("/v1/chat/completions", json=body)).raise_for_status().json()
        choice = made["choices"][0]
        text = choice["message"]["content"]
        stop = "length" if choice["finish_reason"] == "length" else "end"
        return Response(text, extract_answer(text), made["usage"]["completion_tokens"], stop)

    async def ask(client: httpx2.AsyncClient, question: str, seed: int) -> int:
        first = await asyncio.gather(*(reply_to(client, prompts.ask(question)) for _ in range(3)))
        prompt = prompts.debate_prompt(question, [prompts.shared(response) for response in first])
        last = await asyncio.gather(*(reply_to(client, prompt) for _ in range(3)))
        await vote([first, last], grader=grader)
        return sum(response.token_count for response in (*first, *last))

    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    # Its 5 seconds end connections that a busy client is just about to use again.
    environment["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"] = "600"
    with process(command, log=log, address=address, **environment) as url:
        yield url, ask


async def closed_loop(url: str, ask: Ask, questions: list[str], *, clients: int, seconds: float):
    """Return debates per second, their latencies, and tokens per debate; what is running at the end does not count."""
    numbers = count()
    latencies: list[float] = []
    tokens: list[int] = []
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=url, timeout=600, trust_env=False, limits=limits) as connection:
        # Everything is warm, and replies of all lengths are under way, when the clock starts.
        started = time.monotonic() + WARM_UP
        end = started + seconds

        async def client() -> None:
            while time.monotonic() < end:
                number = next(numbers)
                begun = time.monotonic()
                generated = await ask(connection, questions[number % len(questions)], number)
                if started <= time.monotonic() <= end:
                    latencies.append(time.monotonic() - begun)
                    tokens.append(generated)

        await asyncio.gather(*(client() for _ in range(clients)))
    return len(latencies) / seconds, latencies, statistics.fmean(tokens or [0])


def main() -> None:
    arguments = argparse.ArgumentParser(description="Debates per second under load.")
    arguments.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--vllm", help="a Python with vLLM; .venv-vllm's if it is there")
    given = arguments.parse_args()
    python = given.vllm or str(ROOT / ".venv-vllm" / "bin" / "python")
    questions = [problem.question for name in BENCHMARKS for problem in load_problems(name)]
    random.Random(0).shuffle(questions)  # easy and hard ones alike, however far a server comes
    folder = Path(tempfile.mkdtemp())
    grader = Grader(workers=1)
    servers: dict[str, Callable[[], object]] = {
        "mada": lambda: mada(folder / "mada.log"),
        "one at a time": lambda: mada(folder / "one.log", "--at-once", "1"),
    }
    if shutil.which(python):
        servers["vllm"] = lambda: vllm(folder / "vllm.log", python, grader)
    else:
        print(f"{python} is not there (make vllm), so vLLM is left out")
    found: dict[tuple[str, int], list[tuple[float, list[float], float]]] = {}
    for repeat in range(given.repeats):
        for name, start in servers.items():
            with start() as (url, ask):  # type: ignore[attr-defined]
                for clients in given.clients:
                    made = asyncio.run(closed_loop(url, ask, questions, clients=clients, seconds=given.seconds))
                    found.setdefault((name, clients), []).append(made)
                    print(f"round {repeat + 1}: {name}, {clients} clients: {made[0]:.2f} debates/s", flush=True)
    print(f"\n{'clients':>7}  {'server':<14} {'debates/s':>9} {'mada is':>8} {'p50':>8} {'p99':>8} {'tokens':>7}")
    for clients in given.clients:
        for name in servers:
            rounds = found[name, clients]
            times = sorted(one for _, latencies, _ in rounds for one in latencies)
            ours = [rate for rate, _, _ in found["mada", clients]]
            ratio = statistics.median(
                own / rate if rate else float("inf") for own, (rate, *_) in zip(ours, rounds, strict=True)
            )
            p50, p99 = (times[min(int(share * len(times)), len(times) - 1)] for share in (0.5, 0.99))
            rate = statistics.median(rate for rate, *_ in rounds)
            mean_tokens = statistics.fmean(mean for *_, mean in rounds)
            print(f"{clients:>7}  {name:<14} {rate:>9.2f} {ratio:>7.2f}x {p50:>7.2f}s {p99:>7.2f}s {mean_tokens:>7.0f}")
    grader.close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Do a run's adapters load unchanged in PEFT and in vLLM, and answer there as they do here?

    python benchmarks/gpu/adapters_elsewhere.py RUN RESULTS.json [--model FOLDER] [--benchmark math-500] [--data FOLDER]
        [--problems 20] [--max-new-tokens 256] [--only mada,peft,vllm] [--dtype bfloat16] [--together]

Every adapter of the run, the second set of critics that `mada ablate` trains included, is asked the same token ids and
answers greedily: in mada (LocalEngine), in PEFT (`PeftModel.from_pretrained`, batches padded on the left) and in vLLM
(`LLM` with a `LoRARequest`). Generators get the benchmark's questions; critics get debate prompts that the run stored,
or, where it stored none, prompts made of the generators' greedy answers.

In half precision greedy decoding parts where rounding decides between two tokens. So every first difference is
weighed: by how much does mada's own model, at the precision asked for and again in float32, prefer its likeliest token
to the less likely of the two? 0.5 nats or more in both is a real disagreement: bfloat16 knows logits of 16 to 32 only
in steps of 0.125, and mada parts from itself at up to 0.25 when the batch has fewer rows. In float32 every difference
is one, and vLLM, whose adapters know only half precision, is left out.

Controls, which decide nothing: mada against itself with fewer rows in the batch (what rounding alone does), against
the bare base, and against the next adapter of the same role (what the check makes of a wrong adapter). Adapters that
answer alike greedily still differ in their log-probabilities, so the mean difference of these over the tokens in common
is reported for every comparison: between systems it should be far below that between adapters.

Ends with 0 if all agree, 1 on a real disagreement, 2 if a system could not be asked or the script was called wrongly.
RESULTS is written after every step, so a session that is cut short leaves what it had; jobs, replies and logs lie in a
folder beside it. `--together` runs the systems at the same time. Each has 300 seconds.
"""

import argparse
import hashlib
import json
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from comparing import FEW_ROWS, SYSTEMS, compare, show
from greedy_job import make_job
from greedy_workers import Replies
from grpo_results import versions
from processes import end, last_lines, start

WORKERS = Path(__file__).resolve().parent / "greedy_workers.py"
LIMIT = 300
TOLERANCE = {"bfloat16": 0.5, "float32": 0.0}


class Workers:
    """Processes under a time limit, each with a job, a result and a log in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self._running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}

    def start(self, name: str, job: dict[str, Any]) -> None:
        """Start a worker."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{name}.job.json").write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, str(WORKERS), name, str(self.folder)]
        worker = start(command, self.folder / f"{name}.log", {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"})
        self._running[name] = worker, time.monotonic()

    def result(self, name: str) -> dict[str, Any] | None:
        """Wait for a worker and return its result, or None if it failed; `errors` then says why."""
        worker, started = self._running.pop(name)
        try:
            code = worker.wait(max(0.0, started + LIMIT - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(worker)
        self.seconds[name] = round(time.monotonic() - started, 1)
        if code != 0:
            how = f"ended with {code}" if code is not None else f"took more than {LIMIT} s"
            self.errors[name] = "\n".join([f"{name} {how}:", *last_lines(self.folder / f"{name}.log", 25)])
            print(self.errors[name], flush=True)
            return None
        print(f"{name}: {self.seconds[name]} s", flush=True)
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))

    def end_all(self) -> None:
        """End what is still running."""
        for worker, _ in self._running.values():
            end(worker)


def work(arguments: argparse.Namespace, wanted: list[str], workers: Workers) -> int:
    """Do everything, writing results as they come."""

    def answers(job: dict[str, Any]) -> Replies:
        workers.start("answers", job)
        made = workers.result("answers")
        if made is None:
            sys.exit(2)  # `result` has said why
        return made["replies"]

    def weigh(questions: list[dict[str, Any]]) -> list[dict[str, float]] | None:
        workers.start("weigh", {**job, "prompts": {}, "questions": questions, "tolerance": tolerance})
        made = workers.result("weigh")
        return made["gaps"] if made else None

    def write(**more: Any) -> None:
        results.update(seconds=workers.seconds, errors=workers.errors, **more)
        arguments.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    tolerance = TOLERANCE[arguments.dtype]
    job = make_job(arguments, answers)
    results: dict[str, Any] = {
        "run": str(arguments.run), "model": job["model"], "benchmark": arguments.benchmark, "dtype": arguments.dtype,
        "max_new_tokens": arguments.max_new_tokens, "tolerance": tolerance, "critic_prompts_from": job["critics_from"],
        "prompts": {role: len(some) for role, some in job["prompts"].items()}, "context": job["context"],
        "versions": versions("mada-rl", "torch", "transformers", "peft", "vllm"), "adapters": digests(job),
    }  # fmt: skip
    replies: dict[str, Replies] = {}
    write()
    for name in wanted if arguments.together else ():
        workers.start(name, job)
    for name in wanted:
        if not arguments.together:
            workers.start(name, job)
        made = workers.result(name)
        if made is not None:
            replies[name] = made["replies"]
            if "few rows" in made:
                replies[FEW_ROWS] = made["few rows"]
        write()
    rows = compare(job, replies, weigh, tolerance)
    real = sum(row["real"] for row in rows if row["decides"])
    agree = real == 0 and any(row["decides"] for row in rows) and not workers.errors
    write(unchanged=digests(job) == results["adapters"], real=real, agree=agree, comparisons=rows)
    show(rows)
    print(f"real disagreements: {real}; systems that failed: {', '.join(workers.errors) or 'none'}")
    if agree:
        return 0
    # Where nothing could be weighed, nothing is known to be real.
    return 1 if real and "weigh" not in workers.errors else 2


def digests(job: dict[str, Any]) -> dict[str, str]:
    """What the adapters' files hold: nobody may change them on the way."""
    found: dict[str, str] = {}
    for one in job["speakers"]:
        if one["folder"]:
            files = (Path(one["folder"]) / name for name in ("adapter_config.json", "adapter_model.safetensors"))
            found[one["name"]] = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    return found


def parse() -> tuple[argparse.Namespace, list[str]]:
    """What the user wants, and the systems to ask; a mistake ends in one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--model", help="folder of the base, if it lies elsewhere than the run's recipe says")
    parser.add_argument("--benchmark", default="math-500")
    parser.add_argument("--data", help="folder of the benchmarks' files; else the recipe's, else MADA_DATA")
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SYSTEMS))
    parser.add_argument("--dtype", choices=list(TOLERANCE), default="bfloat16")
    parser.add_argument("--together", action="store_true", help="all systems at the same time")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only if name not in SYSTEMS]
    if unknown:
        parser.error(f"there is no system {unknown[0]!r}; there are {', '.join(SYSTEMS)}")
    wanted = [name for name in SYSTEMS if name in arguments.only and (name != "vllm" or arguments.dtype != "float32")]
    missing = [name for name in wanted if not find_spec(name)]
    if missing:
        parser.error(f"{missing[0]} is not installed here; leave it out with --only")
    if len(wanted) < 2:
        parser.error("two systems at least must be asked, and vLLM's adapters know no float32")
    if arguments.max_new_tokens < 1:
        parser.error("at least one new token is needed")
    if arguments.results.is_dir():
        parser.error(f"{arguments.results} is a folder; RESULTS is a file")
    try:
        arguments.results.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}; RESULTS must be where files can be written")
    return arguments, wanted


def main() -> int:
    """Ask all systems, compare, and say whether they agree."""
    arguments, wanted = parse()
    from mada.errors import MadaError

    # The workers are in sessions of their own: whoever ends this process must not leave them behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    workers = Workers(arguments.results.with_name(f"{arguments.results.stem}-files"))
    try:
        return work(arguments, wanted, workers)
    except MadaError as error:
        print(f"adapters_elsewhere: {error}", file=sys.stderr)
        return 2
    finally:
        workers.end_all()


if __name__ == "__main__":
    sys.exit(main())

"""Break a tiny run in every way we know, and see what holds: kills, full disks, damaged files, a hostile server.

    make torture                                     about ten minutes on two cores
    python tests/torture/torture.py --minutes 5 --seed 1 --only kills,server

An attempt holds if mada ends with the results of an undisturbed run, or refuses in one line without a traceback; where
the table says so, only one of the two will do. Kills and full disks must be repaired by running the command again.
It prints a table of attempts and how many held, then every attempt that did not, and exits with 1 if there is one.
Families take turns until the time is over, and each is tried at least once.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import resource
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
LONGEST = 240.0  # seconds that one command may take
RECIPE = """
name = "torture"
[model]
name = "mada-nano"
window = 512
[data]
train = "train.jsonl"
subset_size = 6
validation_size = 4
decontaminate = []
[team]
generators = 2
critics = 1
rounds = 2
[lora]
rank = 2
alpha = 4
[grading]
workers = 1
[training]
batch_size = 4
group_size = 2
max_new_tokens = 24
steps = 3
validate_every = 2
checkpoint_every = 1
[engine]
rows = 8
threads = 1
[inference]
max_new_tokens = 32
[evaluation]
benchmarks = ["bench.jsonl"]
seeds = 1
problems = 4
prompt_price = 0.2  # a measured one, and with it the size of a vote at equal cost, is another each time
"""
RUN = ("run", "recipe.toml", "--run", "run")
MODEL = ("evaluate", "--model", "mada-nano", "--benchmarks", "bench.jsonl", "--problems", "3", "--seeds", "1",
         "--systems", "single,vote", "--samples", "2", "--max-new-tokens", "24", "--out", "run")  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status (minus the signal's number if one ended it), and what it said."""

    status: int
    said: str

    @property
    def is_one_line(self) -> bool:
        """Whether it refused in mada's own words."""
        return self.status == 2 and "mada: " in self.said and "Traceback" not in self.said


@dataclass
class Family:
    """Attempts of one kind, and what went wrong in those that did not hold."""

    name: str
    attempts: int = 0
    failures: list[str] = field(default_factory=list)


def command(
    words: tuple[str, ...], folder: Path, *, kill_after: float | None = None, largest: int | None = None
) -> Ended:
    """Run one command in a process of its own, forked from this one so that PyTorch need not be loaded again."""
    reader, writer = os.pipe()  # a file would be limited with the others
    os.set_blocking(reader, False)
    pid = os.fork()
    if pid == 0:
        _be_mada(words, folder, writer, largest)
    os.close(writer)
    with suppress(OSError):
        os.setpgid(pid, pid)  # a group of its own, which a kill reaches as a whole
    began, status, said = time.monotonic(), None, b""
    limit = LONGEST if kill_after is None else kill_after
    while status is None:
        done, code = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(code)
        elif time.monotonic() - began >= limit:
            os.killpg(pid, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        else:
            time.sleep(0.005)
        with suppress(BlockingIOError):
            while chunk := os.read(reader, 2**16):
                said += chunk
    os.close(reader)
    return Ended(status, said.decode(errors="replace"))


def _be_mada(words: tuple[str, ...], folder: Path, said: int, largest: int | None) -> None:
    status = 70
    try:
        os.chdir(folder)
        for stream in (1, 2):
            os.dup2(said, stream)
        if largest is not None:  # larger files fail to be written, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
        sys.argv = ["mada", *words]
        from mada.cli import main

        main()
        status = 0
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def results(run: Path) -> dict[str, object]:
    """Return what two runs must agree on: adapters to the last bit, and every answer of the evaluation."""
    adapters = {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((run / "adapters").rglob("*.safetensors"))
    }
    lines = (run / "records" / "scores.jsonl").read_text().splitlines()
    names = ("system", "benchmark", "seed", "problem", "answers", "correct", "failed")
    return {**adapters, "scores": sorted(str([one.get(name) for name in names]) for one in map(json.loads, lines))}


class Torture:
    """A folder of finished and half-finished runs, and attempts on copies of them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.random = root, random.Random(seed)
        self.numbers = itertools.count()
        self.base = root / "base"
        self.base.mkdir()
        from mada.problems import load_problems

        for name, source, count in (("train", "abacus-short", 40), ("bench", "abacus-easy", 4)):
            rows = [{"problem": one.question, "answer": one.answer} for one in load_problems(source, limit=count)]
            (self.base / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (self.base / "recipe.toml").write_text(RECIPE)

    def prepare(self) -> None:
        """Make the undisturbed run, and one that is to be evaluated."""
        trained = self.copy(self.base)
        self.must(command((*RUN, "--until", "critics"), trained))
        whole = self.copy(trained)
        began = time.monotonic()
        self.must(command(RUN, whole))
        self.seconds = time.monotonic() - began
        self.trained, self.wanted = trained, results(whole / "run")

    def copy(self, source: Path) -> Path:
        """Return a copy to work on."""
        return Path(shutil.copytree(source, self.root / f"attempt-{next(self.numbers)}"))

    def must(self, ended: Ended) -> None:
        """Stop the script if what has to work does not."""
        if ended.status != 0:
            raise RuntimeError(f"an undisturbed command ended with {ended.status}:\n{ended.said[-2000:]}")

    def judged(self, folder: Path, ended: Ended, *, may_refuse: bool, must_refuse: bool = False) -> str | None:
        """Return what is wrong with how an attempt ended, or None."""
        if "Traceback" in ended.said:
            return f"traceback: {ended.said.strip().splitlines()[-1]}"
        if ended.status == 0 and not must_refuse:
            return None if results(folder / "run") == self.wanted else "ended well, with other results"
        if ended.is_one_line and (may_refuse or must_refuse):
            return None
        return f"status {ended.status}: {ended.said.strip()[-200:]}"

    # Families: each yields a description and what is wrong, or None, for one attempt after another.

    def kills(self) -> Iterator[tuple[str, str | None]]:
        """SIGKILL at random moments of a whole run, and of its evaluation; then the same command again."""
        for source in itertools.cycle((self.trained, self.base)):
            folder = self.copy(source)
            moments = [self.random.uniform(0, 1.2 * self.seconds) for _ in range(2)]
            for moment in moments:
                command(RUN, folder, kill_after=moment)
            wrong = self.judged(folder, command(RUN, folder), may_refuse=False)
            yield f"killed after {' s and '.join(f'{moment:.1f}' for moment in moments)} s", wrong

    def full_disks(self) -> Iterator[tuple[str, str | None]]:
        """No file may be larger than a random size; then the same command again without that limit."""
        for source in itertools.cycle((self.trained, self.base)):
            folder, largest = self.copy(source), int(2 ** self.random.uniform(9, 18))
            wrong = self.judged(folder, command(RUN, folder, largest=largest), may_refuse=True)
            yield (
                f"files of at most {largest:,} bytes",
                wrong or self.judged(folder, command(RUN, folder), may_refuse=False),
            )

    def corruptions(self) -> Iterator[tuple[str, str | None]]:
        """A flipped bit in what a later stage reads, or data edited between two sessions."""
        ways: list[tuple[str, Callable[[], Path], bool]] = [
            ("a bit of an adapter", lambda: self.flipped("run/adapters/*/*.safetensors"), False),
            ("a bit of the critic data", lambda: self.flipped("run/records/critic-examples.jsonl"), False),
            ("a bit of the samples", lambda: self.flipped("run/records/samples.jsonl", evaluated=True), False),
            ("a bit of the scores", lambda: self.flipped("run/records/scores.jsonl", evaluated=True), False),
            ("a bit of a checkpoint", self.flipped_checkpoint, False),
            ("edited answers of the benchmark", self.edited_benchmark, True),
        ]
        for name, make, must_refuse in itertools.cycle(ways):
            folder = make()
            yield name, self.judged(folder, command(RUN, folder), may_refuse=True, must_refuse=must_refuse)

    def flipped(self, pattern: str, *, evaluated: bool = False) -> Path:
        """Return a run with one flipped bit in a file; `evaluated`: half way through its evaluation."""
        folder = self.half_evaluated() if evaluated else self.copy(self.trained)
        self.flip(self.random.choice(sorted(folder.glob(pattern))))
        return folder

    def flip(self, path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(7)
        path.write_bytes(content)

    def half_evaluated(self) -> Path:
        """Return a run that was killed in its evaluation, with some scores and samples."""
        folder = self.copy(self.trained)
        command((*RUN, "--until", "evaluate"), folder)
        (folder / "run" / "stages" / "evaluate.json").unlink()
        scores = folder / "run" / "records" / "scores.jsonl"
        lines = scores.read_bytes().splitlines(keepends=True)
        scores.write_bytes(b"".join(lines[: len(lines) // 2]))
        return folder

    def flipped_checkpoint(self) -> Path:
        """Return a run that was killed while generators trained, with one flipped bit in a checkpoint."""
        for moment in (0.4, 0.6, 0.8, 1.0, 1.2, 1.6):
            folder = self.copy(self.base)
            command((*RUN, "--until", "generators"), folder, kill_after=moment * self.seconds)
            found = [path for path in (folder / "run" / "generators").rglob("*.safetensors") if path.is_file()]
            found += [path for path in (folder / "run" / "generators").rglob("*.pt") if path.is_file()]
            if found:
                self.flip(self.random.choice(sorted(found)))
                return folder
        raise RuntimeError("no kill found a training with a checkpoint")

    def edited_benchmark(self) -> Path:
        """Return a half-evaluated run whose benchmark has other answers now."""
        folder = self.half_evaluated()
        rows = [json.loads(line) for line in (folder / "bench.jsonl").read_text().splitlines()]
        text = "".join(json.dumps(row | {"answer": "12345"}) + "\n" for row in rows)
        (folder / "bench.jsonl").write_text(text)
        return folder

    def server(self) -> Iterator[tuple[str, str | None]]:
        """A server that is away, busy, odd, or says no: an evaluation with its scores, or a line with the way on."""
        running = runpy.run_path(str(TESTS / "completion_server" / "running.py"))["running_server"]
        ways = ["fail=503x5", "fail=500x5", "fail=429x4,after=1", "cut=4", "cut-body=5", "hang=1", *(
            f"odd={kind}:6" for kind in ("html", "broken", "fields", "ids", "large-ids", "huge", "bomb", "layers")
        ), "reason=content_filter", "reason=abort", "key=other", "models=nothing"]  # fmt: skip
        with running() as server:
            well = self.copy(self.base)
            self.must(command((*MODEL, "--server", server.url("well")), well))
            wanted = results(well / "run")
            for number, flags in enumerate(itertools.cycle(ways)):
                folder, url = self.copy(self.base), server.url(f"{flags},name={number}")
                ended = command((*MODEL, "--server", url), folder)
                refuses = flags.split("=")[0] in ("reason", "key", "models")
                wrong = None
                if refuses and not ended.is_one_line:
                    wrong = f"status {ended.status}: {ended.said.strip()[-200:]}"
                elif not refuses and (ended.status != 0 or results(folder / "run") != wanted):
                    wrong = f"status {ended.status}, or other scores: {ended.said.strip()[-200:]}"
                elif flags.startswith("reason"):
                    again = command((*MODEL, "--server", url, "--fail-on-error", "1"), folder)
                    if again.status != 0 or "counted as wrong" not in again.said.replace("\n", " "):
                        wrong = f"failed replies are not counted: {again.said.strip()[-200:]}"
                yield flags, wrong


def main() -> int:
    """Run attempts until the time is over; return 1 if one did not hold."""
    names = ("kills", "full_disks", "corruptions", "server")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0, help="when to begin no further attempt")
    parser.add_argument("--seed", type=int, default=0, help="decides moments, sizes and bits")
    parser.add_argument("--only", default=",".join(names), help=f"some of {', '.join(names)}")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "400"}
    import mada.pipeline.running  # PyTorch and all, once for all commands  # noqa: F401

    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="mada-torture-") as folder:
        torture = Torture(Path(folder), options.seed)
        torture.prepare()
        families = {name: Family(name.replace("_", " ")) for name in options.only.split(",")}
        waiting = {name: getattr(torture, name)() for name in families}
        for name in itertools.cycle(families):
            if time.monotonic() >= end and all(one.attempts for one in families.values()):
                break
            what, wrong = next(waiting[name])
            families[name].attempts += 1
            families[name].failures += [f"{what}: {wrong}"] if wrong else []
            print(f"{families[name].name}: {what}: {'held' if wrong is None else wrong}", flush=True)
        for attempts in waiting.values():
            attempts.close()
    print(f"\n{'family':<14}{'attempts':>10}{'held':>8}")
    for one in families.values():
        print(f"{one.name:<14}{one.attempts:>10}{one.attempts - len(one.failures):>8}")
    return int(any(one.failures for one in families.values()))


if __name__ == "__main__":
    sys.exit(main())

"""A completion server for tests: a process of its own, over HTTP, with the embedded model and random adapters.

    python tests/completion_server/server.py [--scripted]

It prints its port, and ends when its standard input does. `--scripted` replies without a model, with the prompt's own
tokens backwards, and is there at once: enough for a test of what goes wrong.

It speaks OpenAI's protocol with vLLM's extensions at `http://127.0.0.1:PORT/FLAGS/v1`. FLAGS, separated by commas, make
it plainer or unwell, so that one process plays every server a test needs; `name=…` is free, and keeps the counts of
tests apart. `http://127.0.0.1:PORT/FLAGS/seen` says what came in under exactly these flags.

    no-ids             gives no token ids, and the tokens of its log-probabilities as text
    ids-in-logprobs    gives token ids only as `token_id:…`
    no-logprobs        gives no log-probabilities
    no-usage           counts no tokens
    no-stop-ids        leaves the stop token out of the ids
    ignores-stop       does not know stop tokens, and goes on to the length
    text-only          refuses prompts of token ids
    strict=400|422     refuses fields that OpenAI does not have, in OpenAI's words or in FastAPI's
    refuses=FIELD      refuses one field
    key=KEY            wants this key, and repeats the one it got where that is another
    fail=503x2         answers so for the first requests (after=1.5: with this Retry-After)
    cut=2              closes the connection on the first requests; cut-body=2 in the middle of the answer
    hang=1             does not answer the first requests until the client has gone
    root=…, version=…  says so of its models and of itself
    pause=0.05         thinks for so long
    not-json, choices=3, reason=content_filter, models=nothing|garbage     answers nonsense
    odd=html:3         answers the first requests with status 200 and nonsense: html, broken, fields, ids, large-ids,
                       huge, bomb, layers or text (more of it than asked)
    poison=7           fails with status 500 at every prompt that has this token; poison-400 and poison-odd likewise
"""

import asyncio
import gzip
import json
import os
import select
import sys
import threading
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mada.errors import EngineError
from mada.models.engines import Sampling, ScriptedEngine

BASE = "mada-nano"
ADAPTERS = ("generator-1", "generator-2", "critic-1")
CORE = {
    *("model", "prompt", "best_of", "echo", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n"),
    *("presence_penalty", "seed", "stop", "stream", "suffix", "temperature", "top_p", "user"),
}


def make_engine():
    """Make the same engine, and its tokenizer, in every process that asks."""
    import torch

    from mada.models.adapters import AdapterStack, Lora
    from mada.models.engines.local import LocalEngine
    from mada.models.loading import load_base

    torch.set_num_threads(1)
    base = load_base(BASE, device="cpu")
    stack = AdapterStack.attach(base.model, ADAPTERS, Lora(rank=4, alpha=8))
    generator = torch.Generator().manual_seed(5)
    for agent in ADAPTERS:
        own = stack.tensors(agent)
        stack.assign(agent, {name: torch.randn(one.shape, generator=generator) * 0.06 for name, one in own.items()})
    return base.tokenizer, LocalEngine(base.model, stack, context=1024, rows=32)


class Spelling:
    """Enough of a tokenizer for scripted replies."""

    def encode(self, text, *, add_special_tokens=False):
        return [int(word) for word in text.split()]

    def decode(self, ids, *, skip_special_tokens=False):
        return " ".join(map(str, ids))


def make_scripted_engine():
    return Spelling(), ScriptedEngine(lambda request: request.prompt_ids[::-1])


@dataclass
class Seen:
    requests: int = 0
    running: int = 0
    most_running: int = 0
    abandoned: int = 0
    connections: int = 0
    bodies: list = field(default_factory=list)


class RefusedError(Exception):
    def __init__(self, status, body):
        self.status = status
        self.body = {"error": {"message": body, "type": "invalid_request_error"}} if isinstance(body, str) else body


class CompletionServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, tokenizer, engine):
        self.tokenizer, self.engine = tokenizer, engine
        self.loop = asyncio.new_event_loop()
        self.lock = threading.Lock()
        self.seen = defaultdict(Seen)
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request, client_address):
        """Say nothing: clients that go away are part of the tests."""

    def complete(self, flags, asked) -> dict[str, Any]:
        prompt, tokenizer = asked["prompt"], self.tokenizer
        if isinstance(prompt, str):
            prompt = tokenizer.encode(prompt, add_special_tokens=False)
        sampling = Sampling(
            max_tokens=asked["max_tokens"],
            temperature=asked["temperature"],
            top_p=asked["top_p"],
            top_k=None if asked.get("top_k", -1) < 1 else asked["top_k"],
            stop_tokens=() if "ignores-stop" in flags else tuple(asked.get("stop_token_ids") or [1]),
            seed=asked.get("seed", 0),
        )
        agent = None if asked["model"] == BASE else asked["model"]
        sampled = self.engine.sample(agent, prompt, sampling, n=asked["n"])
        try:
            completions = asyncio.run_coroutine_threadsafe(sampled, self.loop).result()
        except EngineError as error:
            raise RefusedError(
                400, f"This model's maximum context length: please shorten the prompt. {error}"
            ) from None
        choices = [self.choice(flags, asked, sampling, index, one) for index, one in enumerate(completions)]
        generated = sum(len(one.token_ids) for one in completions)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": generated}
        answer: dict[str, Any] = {"object": "text_completion", "choices": choices[::-1]}
        return answer if "no-usage" in flags else answer | {"usage": usage}

    def choice(self, flags, asked, sampling, index, completion):
        tokenizer, ids = self.tokenizer, list(completion.token_ids)
        ended = bool(ids) and ids[-1] in sampling.stop_tokens
        shown = ids[:-1] if ended and "no-stop-ids" in flags else ids
        # As in vLLM, the token that ended the reply is no part of its text.
        skip = asked.get("skip_special_tokens", True)
        choice = {
            "index": index,
            "text": tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=skip),
            "finish_reason": flags.get("reason", "stop" if ended else "length"),
        }
        if not flags.keys() & {"no-ids", "ids-in-logprobs"} and asked.get("return_token_ids"):
            choice["token_ids"] = shown
        if "no-logprobs" not in flags and asked.get("logprobs") is not None:
            as_ids = asked.get("return_tokens_as_token_ids") and "no-ids" not in flags
            choice["logprobs"] = {
                "tokens": [f"token_id:{one}" if as_ids else tokenizer.decode([one]) for one in shown],
                "token_logprobs": list(completion.log_probs[: len(shown)]),
            }
        return choice


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CompletionServer  # type: ignore[assignment]

    def log_message(self, format, *args):  # noqa: A002
        """Say nothing."""

    def setup(self):
        super().setup()
        self.answered = 0

    def do_GET(self):
        self.answer(None)

    def do_POST(self):
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, asked):
        _, prefix, *rest = self.path.split("/", 2)
        flags = {part.partition("=")[0]: part.partition("=")[2] for part in prefix.split(",")}
        seen, path = self.server.seen[prefix], "/".join(rest)
        if path == "seen":
            return self.send(200, asdict(seen))
        with self.server.lock:
            number = seen.requests
            seen.requests += 1
            seen.running += 1
            seen.connections += not self.answered
            seen.most_running = max(seen.most_running, seen.running)
            seen.bodies.append(asked)
        self.answered += 1
        try:
            return self.play(flags, seen, number, path, asked)
        except RefusedError as refused:
            return self.send(refused.status, refused.body)
        finally:
            with self.server.lock:
                seen.running -= 1

    def play(self, flags, seen, number, path, asked):
        if number < int(flags.get("hang", 0)):
            select.select([self.connection], [], [], 30)  # readable: the client has gone
            seen.abandoned += 1
            self.close_connection = True
            return None
        if number < int(flags.get("cut", 0)):
            self.close_connection = True
            return None
        status, _, times = flags.get("fail", "x0").partition("x")
        if number < int(times):
            headers = {"Retry-After": flags["after"]} if "after" in flags else {}
            return self.send(int(status), {"error": {"message": "not now"}}, headers)
        got = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if "key" in flags and got != flags["key"]:
            raise RefusedError(401, f"Incorrect API key: {got}\n\x1b[31mgo away")
        if path == "v1/models":
            if flags.get("models") == "garbage":
                return self.send(200, ["these", "and", "those"])
            names = [] if flags.get("models") == "nothing" else [BASE, *ADAPTERS]
            root = flags.get("root", "folder")
            data = [{"id": name, "root": root, "max_model_len": 1024, "created": time.time()} for name in names]
            return self.send(200, {"object": "list", "data": data})
        if path == "version":
            return self.send(200, {"version": flags.get("version", "0.24")})
        if path != "v1/completions" or asked is None:
            raise RefusedError(404, {"detail": "Not Found"})
        self.refuse(flags, asked)
        time.sleep(float(flags.get("pause", 0)))
        odd, _, times = flags.get("odd", "none:0").partition(":")
        if "not-json" in flags or number < int(times):
            return self.send_odd("html" if "not-json" in flags else odd)
        for flag, status in (("poison", 500), ("poison-400", 400)):
            if flag in flags and int(flags[flag]) in asked["prompt"]:
                raise RefusedError(status, "this is beyond me")
        if "poison-odd" in flags and int(flags["poison-odd"]) in asked["prompt"]:
            return self.send_odd("html")
        answer = self.server.complete(flags, asked)
        if "choices" in flags:
            answer |= {"choices": [answer["choices"][0]] * int(flags["choices"])}
        content = json.dumps(answer).encode()
        if number < int(flags.get("cut-body", 0)):
            self.close_connection = True
            return self.send(200, content[: len(content) // 2], {"Content-Length": str(len(content))})
        return self.send(200, content)

    def refuse(self, flags, asked):
        if asked["model"] not in (BASE, *ADAPTERS):
            raise RefusedError(404, f"The model `{asked['model']}` does not exist.")
        unknown = sorted(asked.keys() - CORE)
        if flags.get("strict") == "400" and unknown:
            raise RefusedError(400, f"Unrecognized request argument supplied: {unknown[0]}")
        if flags.get("strict") == "422" and unknown:
            loc = [{"loc": ["body", name], "msg": "Extra inputs are not permitted; not a seed"} for name in unknown]
            raise RefusedError(422, {"detail": loc})
        if flags.get("refuses") in asked:
            error = {"message": f"there is no {flags['refuses']} here", "param": flags["refuses"]}
            raise RefusedError(400, {"error": error})
        if "text-only" in flags and not isinstance(asked["prompt"], str):
            raise RefusedError(422, {"detail": [{"loc": ["body", "prompt"], "msg": "Input should be a valid string"}]})

    def send_odd(self, kind):
        """Answer with status 200 and something that is no answer."""
        choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "stop"}
        match kind:
            case "html":
                return self.send(200, b"<html>\x07 welcome", {"Content-Type": "text/html"})
            case "broken":
                return self.send(200, b'{"choices": [{"index": 0, "te')
            case "fields":
                return self.send(200, {"object": "text_completion"})
            case "ids" | "large-ids":
                wrong = 10**6 if kind == "ids" else 2**70
                return self.send(200, {"choices": [choice | {"token_ids": [wrong]}]})
            case "text":
                return self.send(200, {"choices": [choice | {"text": "1 " * 2000}]})
            case "huge":
                return self.send(200, b" " * 2**26)
            case "bomb":
                return self.send(200, gzip.compress(b" " * 2**25), {"Content-Encoding": "gzip"})
            case "layers":
                layers = gzip.compress(gzip.compress(b" " * 2**25))
                return self.send(200, layers, {"Content-Encoding": "gzip, gzip"})
            case _:
                raise ValueError(kind)

    def send(self, status, body, headers=None):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        own = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        for name, value in (own | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def leave_with_the_parent():
    """End when the parent does, however it ends: its end of the pipe closes."""
    sys.stdin.read()
    os._exit(0)


def main():
    server = CompletionServer(*(make_scripted_engine() if "--scripted" in sys.argv else make_engine()))
    threading.Thread(target=leave_with_the_parent, daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

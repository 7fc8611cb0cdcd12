"""A stand-in for vLLM's OpenAI server: it starts at once, and answers as the text of a request says.

A fork whose ``vllm`` is this file shows what a client makes of answers, refusals and deaths, without a vLLM.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

TOKENS = [
    {"token": "token_id:7", "logprob": -0.5, "top_logprobs": [{"token": "token_id:7", "logprob": -0.5}]},
    {"token": "token_id:9", "logprob": -1.5, "top_logprobs": [{"token": "token_id:8", "logprob": -0.25}]},
]
REFUSAL = {"error": {"type": "BadRequestError", "message": "no such image", "param": "image", "code": 400}}

SLOW_S = 0.2


def write_stand_in(into: Path) -> Path:
    """Writes a fork with this module as its server below `into`, and returns `into`."""
    package = into / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "api_server.py").write_text(Path(__file__).read_text("utf-8"), "utf-8")
    return into


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "client"

    def do_GET(self) -> None:
        self._send(200, b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.startswith("/v1"):
            return self._send(200, b"")
        said = body["messages"][0]["content"]
        if said == "die":
            os._exit(3)
        if said == "hang":
            time.sleep(60)
        if said == "slow":
            time.sleep(SLOW_S)
        if said == "fail":
            return self._send(500, b"Internal Server Error")
        if said == "refuse":
            return self._send(400, json.dumps(REFUSAL).encode())
        if not body.get("stream"):
            return self._send(200, json.dumps(answer(TOKENS, "message", "ab")).encode())
        first, second = answer(TOKENS[:1], "delta", "a"), answer(TOKENS[1:], "delta", "b")
        second.pop("prompt_token_ids")
        events = [first, REFUSAL] if said == "break off" else [first, second]
        for event in events:
            event["usage"] = None
        last = {"choices": [], "usage": {"prompt_tokens": 3}}
        lines = [f"data: {json.dumps(event)}\n\n" for event in [*events, last]]
        return self._send(200, "".join([*lines, "data: [DONE]\n\n"]).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(tokens: list[dict[str, object]], part: str, text: str) -> dict[str, object]:
    ids = [int(str(token["token"]).removeprefix("token_id:")) for token in tokens]
    choice = {part: {"content": text}, "token_ids": ids, "logprobs": {"content": tokens}}
    choice["finish_reason"] = "length" if ids[-1] == 9 else None
    return {"choices": [choice], "usage": {"prompt_tokens": 3}, "prompt_token_ids": [1, 2, 3]}


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


if __name__ == "__main__":
    Server(sys.argv[sys.argv.index("--uds") + 1], Handler).serve_forever()

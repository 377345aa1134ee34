"""The connection to a server: the provider's own client package, with limits on what it reads and follows.

httpx2 is what both packages speak HTTP with. A hook on its responses is called before their bodies are read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from types import ModuleType
from typing import Any

import httpx2

from pkg_lib.core.endpoints import Endpoint
from pkg_lib.generation.responses import Fault, Redirected

CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}


class BoundedBody(httpx2.AsyncByteStream):
    """The body of a response, unpacked piece by piece, which ends with a Fault beyond a number of bytes."""

    def __init__(self, response: httpx2.Response, most: int) -> None:
        about = {
            "headers": response.headers,
            "stream": response.stream,
            "request": response.request,
        }
        self.packed = httpx2.Response(response.status_code, **about)
        self.most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async with aclosing(self.packed.aiter_bytes()) as parts:
            async for part in parts:
                size += len(part)
                if max(size, self.packed.num_bytes_downloaded) > self.most:
                    raise Fault(
                        f"the response is larger than {self.most / 2**20:.3g} MB, so it is not read"
                    )
                yield part

    async def aclose(self) -> None:
        await self.packed.aclose()


def open_client(package: ModuleType, endpoint: Endpoint, key: str, most: int) -> Any:
    """Open a client of the endpoint's server.

    Args:
        package: The module `openai` or `anthropic`.
        endpoint: Which server.
        key: The key; "" for none.
        most: How many bytes the body of a response may have, unpacked.

    Returns:
        The package's asynchronous client. Its requests raise a Fault for a larger body, and Redirected where
        the server redirects to another one.
    """

    async def check(response: httpx2.Response) -> None:
        if response.has_redirect_location:
            _same_server(response)
        response.stream = BoundedBody(response, most)
        # The stream is unpacked already.
        response.headers.pop("content-encoding", None)

    http_client = package.DefaultAsyncHttpxClient(event_hooks={"response": [check]})
    # The key is always given: without one, the package would send that of its own variable (OPENAI_API_KEY).
    about = {"api_key": key or "none", "base_url": endpoint.base_url, "timeout": endpoint.timeout}
    client = getattr(package, CLIENTS[endpoint.api])
    return client(**about, max_retries=0, http_client=http_client)


def _same_server(response: httpx2.Response) -> None:
    """Raises Redirected unless a response redirects within its server, Fault where it says nothing usable."""
    here = response.request.url
    try:
        there = here.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError) as e:
        raise Fault(f"the server redirects to an address that is none: {e}") from e
    if _origin(here) != _origin(there):
        scheme, host, port = _origin(there)
        place = f"{scheme}://{host}" + (f":{port}" if port else "")
        advice = (
            "redirects to other servers are not followed; if you trust it, write it in base_url"
        )
        raise Redirected(f"the server redirects to {place}: {advice}")


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)

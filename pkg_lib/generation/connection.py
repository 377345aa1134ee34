"""The connection to a server: the provider's own client package, with limits of this project.

The packages retry failed requests by themselves (429, 5xx, broken connections, timeouts), with
exponential waits, and honour Retry-After. Both speak HTTP with httpx2. ``BoundedClient`` adds what
they lack: a limit on the size of a response and on the time of a whole answer, no redirect to
another server, and a retry for a response with status 200 that is not a complete answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from email.utils import mktime_tz, parsedate_tz
from types import ModuleType
from typing import Any

import httpx2

from pkg_lib.core.endpoints import Endpoint
from pkg_lib.generation.responses import InvalidResponseError

MAX_WAIT = 120.0  # seconds of Retry-After beyond which the run ends; openai waits no longer

CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}
# The packages neither retry nor wrap this error of theirs. It is raised if no request can succeed.
BASE_ERRORS = {"openai": "OpenAIError", "anthropic": "AnthropicError"}

# Checks the body of a response to the current task's request. It raises InvalidResponseError if the body is
# not an answer.
check_body: ContextVar[Callable[[bytes], object]] = ContextVar("check_body")


class BoundedBody(httpx2.AsyncByteStream):
    """The body of a response, decompressed piece by piece.

    Reading raises an InvalidResponseError as soon as the body exceeds ``max_bytes``.
    """

    def __init__(self, response: httpx2.Response, max_bytes: int) -> None:
        self.packed = httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=response.stream,
            request=response.request,
        )
        self.max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the unpacked body."""
        size = 0
        async with aclosing(self.packed.aiter_bytes()) as parts:
            async for part in parts:
                size += len(part)
                if max(size, self.packed.num_bytes_downloaded) > self.max_bytes:
                    limit = f"{self.max_bytes / 2**20:.3g} MB"
                    raise InvalidResponseError(
                        f"the response is larger than {limit}, so it is not read"
                    )
                yield part

    async def aclose(self) -> None:
        """Close the response."""
        await self.packed.aclose()


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client that limits responses and turns faulty ones into errors that are retried.

    Args:
        endpoint: The server.
        max_bytes: How many bytes the body of a response may have, unpacked.
        fatal: The package's error for a run in which no request can succeed (``BASE_ERRORS``).
    """

    def __init__(
        self,
        endpoint: Endpoint,
        max_bytes: int,
        fatal: type[Exception],
    ) -> None:
        super().__init__(
            timeout=endpoint.timeout,
            follow_redirects=True,
            limits=httpx2.Limits(),
            event_hooks={"response": [self._bound]},
        )
        self.seconds = endpoint.timeout
        self.max_bytes = max_bytes
        self.fatal = fatal
        self.was_reached = False

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read the whole response.

        Args:
            request: The request.
            options: Those of ``httpx2.AsyncClient.send``.

        Returns:
            A response that is an answer, or has the status of an error.

        Raises:
            httpx2.RequestError: The request failed in a way that the packages retry.
        """
        try:
            async with asyncio.timeout(self.seconds):
                response = await super().send(request, **options)
            if response.is_success:
                check_body.get()(response.content)
        except TimeoutError as e:
            message = f"no whole answer within {self.seconds:g} seconds"
            raise httpx2.ReadTimeout(message, request=request) from e
        except InvalidResponseError as e:
            raise httpx2.RemoteProtocolError(str(e), request=request) from e
        except httpx2.ConnectError as e:
            if self.was_reached:
                raise
            raise self.fatal(f"Connection error. {e}") from e
        wait = retry_after_seconds(response.headers.get("retry-after", ""))
        if response.is_error and wait > MAX_WAIT:
            raise self.fatal(f"the server asks to wait {wait:.0f} seconds")
        return response

    async def _bound(self, response: httpx2.Response) -> None:
        """Prepare a response before its body is read."""
        self.was_reached = True
        if response.has_redirect_location:
            self._require_same_server(response)
        response.stream = BoundedBody(response, self.max_bytes)
        # The stream is unpacked already.
        response.headers.pop("content-encoding", None)

    def _require_same_server(self, response: httpx2.Response) -> None:
        """Refuse a redirect to another server, which would receive the key and the prompts."""
        here = response.request.url
        try:
            there = here.join(response.headers["location"])
        except (httpx2.InvalidURL, ValueError) as e:
            raise InvalidResponseError(
                f"the server redirects to an address that is none: {e}"
            ) from e
        if _origin(here) != _origin(there):
            scheme, host, port = _origin(there)
            place = f"{scheme}://{host}" + (f":{port}" if port else "")
            advice = "redirects to other servers are not followed"
            trust = "if you trust it, write it in base_url"
            raise self.fatal(f"the server redirects to {place}: {advice}; {trust}")


def open_client(
    package: ModuleType,
    endpoint: Endpoint,
    key: str,
    max_bytes: int,
) -> Any:
    """Open a client of the endpoint's server.

    Args:
        package: The module `openai` or `anthropic`.
        endpoint: The server.
        key: The key; "" for none.
        max_bytes: How many bytes the body of a response may have, unpacked.

    Returns:
        The package's asynchronous client. A task sets ``check_body`` before it sends a request.
    """
    fatal = getattr(package, BASE_ERRORS[endpoint.api])
    http_client = BoundedClient(endpoint, max_bytes, fatal)
    # The key is always given. Without one, the package would send that of its own variable.
    return getattr(package, CLIENTS[endpoint.api])(
        api_key=key or "none",
        base_url=endpoint.base_url,
        timeout=endpoint.timeout,
        max_retries=endpoint.retries,
        http_client=http_client,
    )


def retry_after_seconds(header: str) -> float:
    """Read how long a server asks to wait.

    Args:
        header: Value of the Retry-After header, a number of seconds or a date; "" if it is absent.

    Returns:
        Seconds from now. 0 for a date in the past, and for a value that is neither.
    """
    if header.isascii() and header.replace(".", "", 1).isdecimal():
        return float(header)
    try:
        date = parsedate_tz(header)
        return max(0.0, mktime_tz(date) - time.time()) if date else 0.0
    except (ValueError, OverflowError, TypeError, IndexError):  # such as a date in the year 999999
        return 0.0


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port  # httpx leaves out the default port of the scheme

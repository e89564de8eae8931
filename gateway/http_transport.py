"""HiveServer2 over HTTP: one Thrift message per POST to /cliservice.

Each request proves its user, by Basic, Bearer or the cookie of a login; its sessions
are found in the registry, so any connection will do. What a call means is `handler`'s
business, HTTP itself aiohttp's.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence

from aiohttp import StreamReader, hdrs, http_exceptions, web

from catalog.access.tokens import PREFIX
from core.errors import AccessDenied, SluiceError, TransientError
from gateway.connections import Connections
from gateway.fair import TooManyWait
from gateway.handler import Handler
from gateway.hs2.calls import INTERNAL_ERROR, encode_fault
from gateway.hs2.connection import Buffer, CallRefused, answer_of, read_call
from gateway.hs2.errors import ProtocolError
from gateway.hs2.messages import ExecuteStatement
from gateway.http_logins import BEARER, Login
from gateway.metrics import LOGINS
from gateway.peer import Peer
from gateway.server import GatewayServer

log = logging.getLogger(__name__)

PATH = "/cliservice"
# the name that Hive's JDBC driver looks for
COOKIE = "hive.server2.auth"
MEDIA_TYPE = "application/x-thrift"
MAX_HEADER = 8 * 1024
MAX_HEADERS = 64
SENT_AT_ONCE = 64 * 1024
# for the rest of a body that is not wanted
LINGERING_SECONDS = 2.0
_NO_PLACE = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Content-Length: 0\r\nConnection: close\r\nRetry-After: 5\r\n\r\n"
)


class HttpClient(Peer, web.RequestHandler):
    """One client's socket. `blocking` is a request whose work is for nothing once the
    client is gone, `body` that of the last request."""

    def __init__(self, connections: Connections, http: web.Server) -> None:
        Peer.__init__(self, connections)
        web.RequestHandler.__init__(
            self,
            http,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=connections.limits.keep_alive_seconds,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
            max_headers=MAX_HEADERS,
            lingering_time=LINGERING_SECONDS,
            auto_decompress=False,
        )
        self.blocking: asyncio.Task[object] | None = None
        self.body: StreamReader | None = None
        self._head = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the client a moment to log in."""
        if not self.begin(transport):
            self.hang_up("too many connections")
            return
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection. What it opened stays, for others of the user."""
        self.leave()
        if self.blocking:
            self.blocking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what has come of a request's head; its body counts when it is read."""
        requests, before = self._request_count, self._head
        super().data_received(data)
        is_in_head = not self._messages and (self.body is None or self.body.is_eof())
        is_unended = is_in_head and requests == self._request_count
        self._head = before + len(data) if is_unended else 0
        if self._is_counted and self._head != before:
            self._connections.unfinished.note(self, self._head)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Refuse what is no HTTP. aiohttp's own words quote it, a login with it, and
        go to the log."""
        if not isinstance(exc, http_exceptions.HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        log.info("%s of %s sent what is no HTTP", self.who, self.address)
        return _Refused(status, "this is no request of HTTP/1.1").answer(request)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.note_slow_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.note_reader_caught_up()

    def hang_up(self, reason: str) -> None:
        """Close at once; a client that waits for no answer is given a status."""
        if self._socket is None:
            if self.handshake:
                self.handshake.cancel()
            return
        if not self.user and not self._socket.is_closing():
            self._socket.write(_NO_PLACE)
            self._socket.close()
            return
        self._socket.abort()


class _Refused(Exception):
    """The request gets this status and no service."""

    def __init__(
        self, status: int, text: str, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self._text = text
        self._headers = headers

    def answer(self, request: web.BaseRequest) -> web.Response:
        """As a Thrift fault for a client of it: PyHive looks at no status, and shows
        the fault's text. The connection stays for another login, and ends otherwise."""
        if request.content_type == MEDIA_TYPE:
            fault = encode_fault("", self._text, kind=INTERNAL_ERROR, sequence=0)
            body, media_type = bytes(fault), MEDIA_TYPE
        else:
            body, media_type = f"{self._text}\n".encode(), "text/plain"
        answer = web.Response(
            status=self.status,
            body=body,
            headers=self._headers,
            content_type=media_type,
        )
        if self.status != web.HTTPUnauthorized.status_code:
            answer.force_close()
        return answer


class HttpTransport:
    """Makes clients' connections and serves their requests."""

    def __init__(self, server: GatewayServer, *, is_secure: bool) -> None:
        self._server = server
        self._is_secure = is_secure
        self._http: web.Server | None = None

    def make_client(self) -> HttpClient:
        if self._http is None:
            self._http = web.Server(self._serve)
        return HttpClient(self._server.connections, self._http)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        client = request.protocol
        assert isinstance(client, HttpClient)  # make_client's only kind
        client.body = request.content
        try:
            _require_form(request, self._server.services.limits.max_request)
            login, is_new = await self._log_in(request, client)
            body = await self._body_of(request, client)
            parts = await self._call(body, login, client)
        except _Refused as refused:
            return refused.answer(request)
        headers: dict[str, str] = {hdrs.CONTENT_TYPE: MEDIA_TYPE}
        if is_new:
            headers[hdrs.SET_COOKIE] = self._cookie_of(login)
        return await _sent(request, parts, headers)

    async def _log_in(
        self, request: web.BaseRequest, client: HttpClient
    ) -> tuple[Login, bool]:
        """Return who asks, and whether a cookie of it would be new to the client."""
        named = self._server.logins.by_cookie(request.cookies.get(COOKIE, ""))
        if given := request.headers.get(hdrs.AUTHORIZATION, ""):
            name, secret = _credentials(given)
            login = self._server.logins.by_secret(name, secret)
            if login is None:
                login = await self._prove(name, secret, client)
        else:
            login = named
        if login is None:
            raise _unauthorized("log in by Basic, Bearer or cookie")
        _refuse_other_user(request, login.user)
        if not client.become(login.user):
            raise _busy("too many connections of this user")
        return login, login is not named

    async def _prove(self, name: str, secret: str, client: HttpClient) -> Login:
        services = self._server.services
        username = "" if name == BEARER else name
        try:
            proven = await services.store.authenticate(
                username,
                secret,
                address=client.address,
                gives_way=services.waste.is_much(username),
            )
        except SluiceError as error:
            LOGINS.labels("refused").inc()
            raise _refusal_of(error) from None
        LOGINS.labels("accepted").inc()
        return self._server.logins.remember(
            name, secret, user=proven.name, proof=proven.proof
        )

    async def _body_of(self, request: web.BaseRequest, client: HttpClient) -> bytes:
        """The whole message: in time, not too large, and counted while it grows."""
        limits = self._server.services.limits
        unfinished = self._server.connections.unfinished
        body = bytearray()
        try:
            async with asyncio.timeout(limits.message_seconds):
                while part := await request.content.readany():
                    body += part
                    if len(body) > limits.max_request:
                        raise _too_large(limits.max_request)
                    unfinished.note(client, len(body))
        except TimeoutError:
            raise _Refused(408, "the message was begun and not ended") from None
        except (web.RequestPayloadError, ConnectionError):  # it left, or sent no body
            raise _Refused(400, "the body is no message") from None
        finally:
            unfinished.note(client, 0)
        return bytes(body)

    async def _call(
        self, body: bytes, login: Login, client: HttpClient
    ) -> Sequence[Buffer]:
        try:
            call = read_call(body)
        except ProtocolError as error:
            raise _Refused(400, str(error)) from None
        if isinstance(call, CallRefused):
            return [call.answer]
        handler = Handler(
            self._server.services,
            login.user,
            client.address,
            proof=login.proof,
            is_detached=True,
        )
        request = call.request
        if isinstance(request, ExecuteStatement) and not request.run_async:
            client.blocking = asyncio.current_task()
        try:
            return answer_of(call, await handler.handle(request))
        finally:
            client.blocking = None

    def _cookie_of(self, login: Login) -> str:
        value = self._server.logins.cookie_of(login)
        seconds = self._server.services.limits.http_login_seconds
        secure = "; Secure" if self._is_secure else ""
        return (
            f"{COOKIE}={value}; Path={PATH}; Max-Age={seconds:.0f}"
            f"; HttpOnly; SameSite=Strict{secure}"
        )


def _require_form(request: web.BaseRequest, largest: int) -> None:
    """What is refused without a look at who asks."""
    if request.path.rstrip("/") != PATH:
        raise _Refused(404, f"Thrift messages are posted to {PATH}")
    if request.method != hdrs.METH_POST:
        raise _Refused(405, "one Thrift message per POST", headers={hdrs.ALLOW: "POST"})
    if request.content_type != MEDIA_TYPE:  # which no page of another site may send
        raise _Refused(415, f"the content type is {MEDIA_TYPE}")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        raise _Refused(415, "messages are not compressed")
    if len(request.headers.getall(hdrs.AUTHORIZATION, ())) > 1:
        raise _Refused(400, "a request has one Authorization header")
    if (request.content_length or 0) > largest:
        raise _too_large(largest)


def _credentials(header: str) -> tuple[str, str]:
    """(name, secret) of an Authorization header."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        token = value.strip()
        if not token.startswith(PREFIX):
            raise _unauthorized(f"bearer tokens start with {PREFIX}")
        return BEARER, token
    if scheme.lower() == "basic":
        try:
            text = base64.b64decode(value.strip(), validate=True).decode()
        except ValueError:
            raise _unauthorized("the Authorization header is malformed") from None
        name, colon, secret = text.partition(":")
        if name and colon and "\0" not in text:
            return name, secret
    raise _unauthorized("log in by Basic or Bearer")


def _refuse_other_user(request: web.BaseRequest, user: str) -> None:
    """Hive's `doAs` names whom to act as."""
    names = [value for key, value in request.query.items() if key.lower() == "doas"]
    if any(name != user for name in names):
        raise _Refused(403, "acting as another user is not allowed")


def _unauthorized(text: str) -> _Refused:
    return _Refused(
        401,
        f"Error validating the login: {text}",
        headers={hdrs.WWW_AUTHENTICATE: 'Basic realm="Sluice"'},
    )


def _busy(text: str, *, wait: object = 5) -> _Refused:
    """`wait`: seconds until another try is of use."""
    return _Refused(429, text, headers={hdrs.RETRY_AFTER: str(wait)})


def _too_large(largest: int) -> _Refused:
    return _Refused(413, f"a message has {largest} bytes at most")


def _refusal_of(error: SluiceError) -> _Refused:
    if isinstance(error, TooManyWait):
        return _busy("too many logins at the moment, try again later")
    if isinstance(error, TransientError):  # the database, or the users' directory
        return _Refused(503, f"{error} (08S01)")
    if error.code == "too_many_attempts":
        return _busy(str(error), wait=error.facts["retry_after_seconds"])
    if isinstance(error, AccessDenied) and error.code != "bad_credentials":
        return _Refused(403, str(error))
    return _unauthorized(str(error))


async def _sent(
    request: web.BaseRequest, parts: Sequence[Buffer], headers: dict[str, str]
) -> web.StreamResponse:
    """Send a reply's buffers: small ones with the head at once, which is what most
    calls wait for; large ones as they lie in memory."""
    answer = web.StreamResponse(headers=headers)
    answer.content_length = size = sum(len(part) for part in parts)
    if size <= SENT_AT_ONCE:
        parts = [b"".join(parts)]
    await answer.prepare(request)
    for part in parts:
        await answer.write(part)
    await answer.write_eof()
    return answer

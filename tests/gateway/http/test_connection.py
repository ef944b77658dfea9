"""One connection: whole, chopped, piled up, hostile and slow."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.config import HttpConfig
from penstock.gateway.guests import Guests
from penstock.gateway.http.connection import HttpConnection
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.http.routes import Route
from penstock.model import Action

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"


def at_held(held):
    return Route("POST", "/held", held, needs=Action.ADMIN)


class Line(asyncio.Transport):
    """A transport without a socket, to see what the protocol does with it."""

    def __init__(self, protocol):
        super().__init__()
        self.protocol, self.written, self.reading = protocol, b"", True
        self.ended = self.closed = self.aborted = False

    def write(self, data):
        assert not self.ended
        self.written += data

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def close(self):
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self):
        self.aborted = True
        self.close()

    def is_closing(self):
        return self.closed


async def quick(request):
    return in_json({"path": request.path})


def on_a_line(answer=quick, **settings) -> tuple[HttpConnection, Line]:
    config = HttpConfig(**settings)
    connection = HttpConnection(answer, config, Guests(config.connections_max))
    line = Line(connection)
    connection.connection_made(line)
    return connection, line


async def settle() -> None:
    """Let everything run that can run without waiting."""
    for _ in range(20):
        await asyncio.sleep(0)


# --- chopped and piled up ---------------------------------------------------------------------------------------------


async def test_a_request_byte_by_byte(house):
    caller = await house.call()
    for byte in GET:
        await caller.send(bytes([byte]))
    assert (await caller.answer()).status == 200


@pytest.mark.parametrize("first", [GET, POST], ids=["get", "post"])
async def test_two_requests_cut_anywhere_get_two_answers(first):
    data = first + GET
    for cut in range(1, len(data)):
        connection, line = on_a_line()
        connection.data_received(data[:cut])
        await settle()
        connection.data_received(data[cut:])
        await settle()
        assert line.written.count(b"HTTP/1.1 200") == 2, cut
        connection.abort()


async def test_requests_sent_ahead_are_answered_in_order(house):
    caller = await house.call()
    paths = [f"/{number}" for number in range(100)]
    await caller.send(b"".join(GET.replace(b"/healthz", path.encode()) for path in paths))
    assert [(await caller.answer()).reason.split()[-1] for _ in paths] == paths


async def test_nothing_is_read_while_a_request_is_answered(held):
    connection, line = on_a_line(held)
    connection.data_received(POST + GET)
    await held.entered.wait()
    assert not line.reading
    assert len(held.seen) == 1
    held.release.set()
    await settle()
    assert line.reading
    assert [request.path for request in held.seen] == ["/held", "/healthz"]
    connection.abort()


async def test_nothing_is_answered_while_the_client_does_not_take_the_answer():
    connection, line = on_a_line()
    connection.pause_writing()
    connection.data_received(GET)
    await settle()
    assert not line.written
    assert not line.reading
    connection.resume_writing()
    await settle()
    assert line.written.startswith(b"HTTP/1.1 200")
    assert line.reading
    connection.abort()


async def test_a_client_that_goes_away_stops_the_handler(house, held):
    cancelled = asyncio.Event()

    async def handler(request):
        try:
            return await held(request)
        finally:
            cancelled.set()

    connection, _ = on_a_line(handler)
    connection.data_received(GET)
    await held.entered.wait()
    connection.connection_lost(ConnectionResetError())
    await cancelled.wait()


# --- the ends of a connection -----------------------------------------------------------------------------------------


async def test_a_connection_is_kept_unless_the_client_says_close(house):
    caller = await house.call()
    assert (await caller.ask("/healthz")).status == 200
    await caller.send(GET.replace(b"Host", b"Connection: close\r\nHost"))
    assert (await caller.answer()).headers["connection"] == "close"
    assert await caller.rest() == b""


async def test_http_1_0_is_closed_after_the_answer(house):
    caller = await house.call()
    await caller.send(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert (await caller.answer()).status == 200
    assert await caller.rest() == b""


async def test_a_client_that_has_sent_all_still_gets_its_answer(house):
    caller = await house.call()
    caller.writer.write(GET)
    caller.writer.write_eof()
    assert (await caller.answer()).status == 200
    assert await caller.rest() == b""


async def test_a_connection_stays_open_for_the_answer_after_the_client_has_ended(held):
    connection, line = on_a_line(held)
    connection.data_received(GET)
    await held.entered.wait()
    assert connection.eof_received()
    held.release.set()
    await settle()
    assert line.written.startswith(b"HTTP/1.1 200")
    assert line.closed


async def test_a_client_that_ends_in_the_middle_is_told_so(house):
    caller = await house.call()
    caller.writer.write(POST[:-1])
    caller.writer.write_eof()
    assert (await caller.answer()).status == 400
    assert await caller.rest() == b""


async def test_a_body_is_asked_for_when_the_client_waits_for_that(house, held):
    house.add_route(at_held(held))
    held.release.set()
    caller = await house.call()
    await caller.send(POST[:-5].replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
    await caller.send(b"hello")
    assert (await caller.answer()).body == b'{"length":5}\n'


async def test_idle_connections_leave_at_once_when_asked(house):
    caller = await house.call()
    assert (await caller.ask("/healthz")).status == 200
    assert await house.gateway.guests.see_off(60_000) == 0
    assert await caller.rest() == b""


async def test_a_busy_connection_answers_before_it_leaves(house, held):
    house.add_route(at_held(held))
    caller = await house.call()
    await caller.send(POST + GET)
    await held.entered.wait()
    leaving = asyncio.create_task(house.gateway.guests.see_off(60_000))
    await settle()
    assert not leaving.done()
    held.release.set()
    answer = await caller.answer()
    assert (answer.body, answer.headers["connection"]) == (b'{"length":5}\n', "close")
    assert await leaving == 0


async def test_who_does_not_leave_is_cut_off(house, held):
    house.add_route(at_held(held))
    caller = await house.call()
    await caller.send(POST)
    await held.entered.wait()
    assert await house.gateway.guests.see_off(1) == 1
    assert await caller.rest() == b""


# --- bounds -----------------------------------------------------------------------------------------------------------


async def refused(house, data: bytes, status: int) -> str:
    caller = await house.call()
    await caller.send(data)
    answer = await caller.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    caller.writer.write_eof()
    assert await caller.rest() == b""
    assert (await (await house.call()).ask("/healthz")).status == 200
    return answer.reason


async def test_too_large_a_header(open_house):
    async with open_house(header_bytes_max=1_000) as house:
        await refused(house, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000, 431)
        await refused(house, b"GET /" + b"x" * 100_000, 431)


async def test_too_large_a_body_by_its_own_word(open_house):
    async with open_house(body_bytes_max=4) as house:
        assert "at most 4 bytes" in await refused(house, POST, 413)


async def test_too_large_a_body_in_pieces(open_house):
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with open_house(body_bytes_max=4) as house:
        await refused(house, head + b"3\r\nabc\r\n" * 2, 413)


async def test_a_refused_client_that_goes_on_sending_still_gets_the_answer(open_house):
    async with open_house(body_bytes_max=4) as house:
        caller = await house.call()
        await caller.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n")
        await caller.send(b"x" * 2_000_000)
        assert (await caller.answer()).status == 413


async def test_a_body_that_will_be_too_large_is_refused_before_it_comes():
    connection, line = on_a_line(body_bytes_max=4)
    connection.data_received(POST[:-5])
    assert line.written.startswith(b"HTTP/1.1 413")


async def test_a_refusal_ends_only_our_direction_until_the_client_has_ended_its_own():
    connection, line = on_a_line(body_bytes_max=4)
    connection.data_received(POST)
    assert line.ended
    assert line.reading
    assert not line.closed
    connection.data_received(GET)
    await settle()
    assert b" 200 " not in line.written
    assert not connection.eof_received()
    line.close()


async def test_a_refusal_after_a_head_has_its_body():
    connection, line = on_a_line()
    connection.data_received(GET.replace(b"GET", b"HEAD"))
    await settle()
    connection.data_received(b"nonsense\r\n\r\n")
    assert b'{"reason":' in line.written
    connection.abort()


async def test_more_connections_than_there_may_be(open_house):
    async with open_house(connections_max=1) as house:
        first = await house.call()
        assert (await first.ask("/healthz")).status == 200
        second = await house.call()
        assert (await second.answer()).status == 503
        assert await second.rest() == b""
        first.writer.write_eof()
        assert await first.rest() == b""
        assert (await (await house.call()).ask("/healthz")).status == 200


# --- slow -------------------------------------------------------------------------------------------------------------


async def test_a_silent_connection_is_closed_without_a_word(open_house):
    async with open_house(idle_timeout_ms=20) as house:
        assert await (await house.call()).rest() == b""


async def test_half_a_request_is_not_waited_for(open_house):
    async with open_house(idle_timeout_ms=20) as house:
        for part in (GET[:-1], POST[:-1]):
            caller = await house.call()
            await caller.send(part)
            assert (await caller.answer()).status == 408


async def test_sending_slowly_prolongs_nothing(open_house):
    async with open_house(idle_timeout_ms=50) as house:
        caller = await house.call()
        await caller.send(b"GET / HTTP/1.1\r\nX: ")
        answer = asyncio.create_task(caller.answer())
        while not answer.done():
            await caller.send(b"x")
            await asyncio.sleep(0.005)
        assert (await answer).status == 408


async def test_what_a_client_does_not_take_is_not_kept_for_it_any_longer():
    connection, line = on_a_line(idle_timeout_ms=1)
    connection.pause_writing()
    lost = asyncio.Event()
    connection.connection_lost = lambda error: lost.set()
    await lost.wait()
    assert line.aborted


async def test_a_client_that_never_takes_its_answer_is_cut_off(open_house):
    asked = asyncio.Event()

    async def much(request):
        asked.set()
        return Reply(200, bytes(32 * 2**20))

    async with open_house(idle_timeout_ms=50) as house:
        house.add_route(Route("GET", "/much", much, needs=Action.ADMIN))
        for request in (GET, GET.replace(b"Host", b"Connection: close\r\nHost")):
            caller = await house.call()
            caller.writer.transport.pause_reading()
            await caller.send(request.replace(b"/healthz", b"/much"))
            await asked.wait()
            asked.clear()
            await house.gateway.guests.empty.wait()


# --- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 200,  # TLS
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/x\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\x00\r\n\r\n",
        b"GET http://[x/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_not_http_is_refused(house, data):
    caller = await house.call()
    await caller.send(data)
    assert (await caller.answer()).status in (400, 501)
    assert (await (await house.call()).ask("/healthz")).status == 200


PARTS = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.sampled_from([GET, POST, b"\r\n", b"GET ", b" HTTP/1.1\r\n", b"Host: x\r\n", b"Transfer-Encoding: chunked\r\n"]),
)


@given(st.lists(PARTS, max_size=8), st.booleans())
@settings(deadline=None)
def test_whatever_comes_nothing_breaks(parts, ends):
    async def scenario():
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        connection, line = on_a_line(header_bytes_max=200, body_bytes_max=100)
        for part in parts:
            connection.data_received(part)
            await settle()
        if ends and not line.closed and not connection.eof_received():
            line.close()
        await settle()
        assert line.written == b"" or line.written.startswith(b"HTTP/1.1 ")
        line.close()
        await settle()
        assert not complaints

    asyncio.run(scenario())

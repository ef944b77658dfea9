"""What the paths answer."""

import json
import logging

import pytest

from penstock.core.metrics import Metric
from penstock.errors import StoreReadOnly, TopicNotFound
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.http.routes import Route
from penstock.model import Action


async def test_health_says_that_the_process_is_alive_even_when_it_is_not_ready(house):
    house.obstacle = "starting"
    answer = await (await house.call()).ask("/healthz")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")


async def test_readiness_gives_the_reason(house):
    caller = await house.call()
    assert (await caller.ask("/readyz")).status == 200
    house.obstacle = "read-only: the disk failed"
    answer = await caller.ask("/readyz")
    assert (answer.status, answer.reason) == (503, "read-only: the disk failed")


async def test_metrics_are_in_the_text_format(house):
    house.figures = [Metric("penstock_messages_in_total", "counter", "Messages stored.", 7, {})]
    answer = await (await house.call()).ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.body.decode().splitlines()[-1] == "penstock_messages_in_total 7"


async def test_an_unknown_path(house):
    answer = await (await house.call()).ask("/nowhere?x=1")
    assert (answer.status, answer.reason) == (404, "there is nothing at /nowhere")


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "CONNECT", "BREW"])
async def test_an_unknown_method(house, method):
    answer = await (await house.call()).ask("/metrics", method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert method in answer.reason


async def test_head_has_the_headers_and_no_body(house):
    caller = await house.call()
    whole = await caller.ask("/healthz")
    head = await caller.ask("/healthz", "HEAD")
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert (await caller.ask("/healthz")).body == whole.body


async def test_the_path_is_decoded_and_a_query_left_aside(house):
    caller = await house.call()
    assert (await caller.ask("/h%65althz?verbose=1")).status == 200
    assert (await caller.ask("http://other.example/healthz")).status == 200


async def test_every_route_asks_the_authorizer_first(house):
    house.doorman.refuses = True
    caller = await house.call()
    routes = [route for methods in house.router._routes.values() for route in methods.values()]
    for route in routes:
        answer = await caller.ask(route.path, route.method)
        assert answer.status == 403
        assert answer.reason == f"anonymous may not {route.needs} on broker"
    assert [action for _, action, _ in house.doorman.asked] == [route.needs for route in routes]
    assert len(routes) >= 3


def raises(error):
    async def handler(request):
        raise error

    return Route("GET", "/broken", handler, needs=Action.ADMIN)


@pytest.mark.parametrize(("error", "status"), [(StoreReadOnly("the disk failed"), 503), (TopicNotFound("orders"), 500)])
async def test_an_error_of_the_core_becomes_a_status_with_its_sentence(house, error, status):
    house.add_route(raises(error))
    answer = await (await house.call()).ask("/broken")
    assert (answer.status, answer.reason) == (status, str(error))


async def test_a_defect_is_logged_and_not_told(house, caplog):
    house.add_route(raises(KeyError("a secret")))
    caller = await house.call()
    with caplog.at_level(logging.ERROR):
        answer = await caller.ask("/broken")
    assert answer.status == 500
    assert "secret" not in answer.reason
    assert "a secret" in caplog.text
    assert (await caller.ask("/healthz")).status == 200


async def test_a_handler_gets_the_body_and_the_query(house):
    async def echo(request):
        return in_json([request.query, request.body.decode(), dict(request.headers)[b"x-a"].decode()])

    house.add_route(Route("PUT", "/echo", echo, needs=Action.ADMIN))
    caller = await house.call()
    await caller.send(b"PUT /echo?a=b HTTP/1.1\r\nHost: x\r\nX-A: c\r\nTransfer-Encoding: chunked\r\n\r\n")
    await caller.send(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")
    assert (await caller.answer()).body == b'["a=b","hello","c"]\n'


async def test_a_mount_gets_all_that_begins_with_its_name(house):
    async def echo(request):
        return in_json([request.path, request.raw_path, request.local_host])

    house.router._mounts = {"admin": echo}
    caller = await house.call()
    assert json.loads((await caller.ask("/admin/a%2Fb?c=d")).body) == ["/admin/a/b", "/admin/a%2Fb", "127.0.0.1"]
    assert (await caller.ask("/admin")).status == 200
    assert (await caller.ask("/administer")).status == 404
    assert (await caller.ask("/healthz")).status == 200


async def test_nothing_to_say_has_no_length(house):
    async def nothing(request):
        return Reply(204, b"")

    house.add_route(Route("PUT", "/nothing", nothing, needs=Action.ADMIN))
    caller = await house.call()
    answer = await caller.ask("/nothing", "PUT")
    assert (answer.status, answer.headers.keys()) == (204, {"date"})
    assert (await caller.ask("/healthz")).status == 200

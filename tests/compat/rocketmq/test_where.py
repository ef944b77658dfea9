"""Where a new group begins on a topic that is no longer young: at the end, or at a moment, as its consumers ask."""

import time

import pytest
from tests.compat.conftest import serving, unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, Runner, bodies

OLD, NEW = 8, 8
EACH = pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)


@pytest.fixture(scope="module")
def namesrv(broker, tmp_path_factory):
    """Of a broker for which no topic is young."""
    if broker.kind != "penstock":
        pytest.skip("a broker of our own is started for this")
    folder = tmp_path_factory.mktemp("old")
    settings = folder / "penstock.toml"
    settings.write_text("[broker]\nyoung_bytes = 1\n", encoding="utf-8")
    with serving(folder, f"--config={settings}") as address:
        yield address


@pytest.fixture
def use(namesrv, tmp_path):
    def use(client) -> Runner:
        try:
            command = toolchain.DRIVERS[client.driver](toolchain.quiet)
        except toolchain.Missing as reason:
            unavailable(client.name, reason)
        return Runner(client, command, namesrv, tmp_path / client.name)

    return use


@EACH
def test_from_the_end_nothing_comes_that_was_there_before(client, use, topic, group):
    use(client).produce(topic, OLD, "--label", "old")
    with use(client).push(topic, group, "--from", "last") as consumer:
        got, rounds = [], 0
        while len(got) < NEW:  # when it has found out where the end is, nobody says: it gets what comes from then on
            use(client).produce(topic, NEW, "--label", f"new-{(rounds := rounds + 1)}")
            got += consumer.waiting(2)
            assert rounds < 20
    assert not [line["body"] for line in [*got, *consumer.rest] if line["body"].startswith("old")]


@EACH
def test_from_a_moment_what_was_stored_since_comes(client, use, topic, group):
    use(client).produce(topic, OLD, "--label", "old")
    since_s = int(time.time()) + 1  # clients know no less than a second
    time.sleep(since_s - time.time())
    use(client).produce(topic, NEW, "--label", "new")
    since = time.strftime("%Y%m%d%H%M%S", time.localtime(since_s))  # as clients take it, in their machine's zone
    with use(client).push(topic, group, "--from", "timestamp", "--since", since) as consumer:
        assert sorted(line["body"] for line in consumer.take(NEW)) == bodies("new", NEW)
    assert not consumer.rest

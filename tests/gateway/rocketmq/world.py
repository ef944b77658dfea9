"""A server whose clock a test owns: for what comes later."""

import json

from tests.gateway.rocketmq.conftest import Client

from penstock.clock import ManualClock
from penstock.config import Config, RocketmqConfig, ServerConfig
from penstock.server import Server
from penstock.wire.rocketmq.codes import RequestCode, SysFlag

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PROPERTIES = "TRAN_MSG\x01true\x02PGROUP\x01payers\x02UNIQ_KEY\x01key-1\x02TAGS\x01t\x02"
PORTS = {"namesrv_port": 0, "broker_port": 0, "pulsar_port": 0, "http_port": 0}


class World:
    """A server whose clock stands still until `after`, and a producer."""

    def __init__(self, folder: str, **settings: int) -> None:
        self.clock, self._folder, self._settings = ManualClock(), folder, settings
        self.server: Server
        self.client: Client

    async def open(self) -> None:
        config = Config(server=ServerConfig(data=self._folder, **PORTS), rocketmq=RocketmqConfig(**self._settings))
        self.server = Server(config, self.clock)
        await self.server.start()
        self.client = await self.connected()

    async def close(self) -> None:
        await self.client.close()
        await self.server.stop()

    async def again(self) -> None:
        await self.close()
        await self.open()

    async def connected(self) -> Client:
        return await Client.to(self.server.addresses["broker"])

    async def after(self, passed_ms: int) -> None:
        self.clock.advance(passed_ms)
        await self.server.kept.tick()
        await self.server.broker.keeper.durable(self.server.broker.store.end_position)

    async def prepare(self, body: bytes = b"paid", queue: int = 2, properties: str = PROPERTIES):
        return await self.client.send("orders", body, queue, properties, f=SysFlag.PREPARED)

    async def end(self, sent, how: int, group: str = "payers", client: Client | None = None, **ext: object):
        physical = int(sent.ext["msgId"][16:], 16)
        fields = {"producerGroup": group, "tranStateTableOffset": sent.ext["queueOffset"], "commitLogOffset": physical}
        ask = (client or self.client).ask
        return await ask(RequestCode.END_TRANSACTION, {**fields, "commitOrRollback": how, "msgId": "key-1", **ext})

    async def beat(self, client: Client, group: str = "payers", client_id: str = "p@1") -> None:
        body = json.dumps({"clientID": client_id, "producerDataSet": [{"groupName": group}]}).encode()
        assert (await client.ask(RequestCode.HEART_BEAT, {}, body)).code == 0

    async def bodies(self, topic: str = "orders", queue: int = 2) -> list[bytes]:
        return [message.body for message in await self.client.messages(topic, queue)]

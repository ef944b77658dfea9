"""The broker in figures, as operators' tools ask for them: its state (28), its settings (26, 25), statistics (315)."""

from collections.abc import Callable

import msgspec

from penstock import __version__
from penstock.config import Config
from penstock.core.minutes import Minutes
from penstock.core.traffic import Count, Sums, Traffic
from penstock.core.vitals import Physician
from penstock.gateway.rocketmq.connection import VERSION, Connection
from penstock.gateway.rocketmq.house import BROKER, CLUSTER, DEFAULT_TOPIC_QUEUES, READ_WRITE, House
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action, Durability
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

# What the tools want to see, and this broker has no use for: it has neither thread pools nor a lock of a page cache.
_ZEROS = (
    "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "ackThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueHeadWaitTimeMills",
    "pageCacheLockTimeMills",
)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_GIB = 1 << 30


class _Stats(msgspec.Struct):
    statsName: str  # noqa: N815  # the wire's names
    statsKey: str  # noqa: N815


class Figures:
    def __init__(
        self, config: Config, house: House, physician: Physician, traffic: Traffic, minutes: Minutes, boot_ms: int
    ) -> None:
        self._config, self._house, self._physician = config, house, physician
        self._traffic, self._minutes, self._boot_ms = traffic, minutes, boot_ms

    def routes(self) -> Routes:
        monitor = Action.MONITOR
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: Route(self.runtime_info, monitor, ""),
            RequestCode.GET_BROKER_CONFIG: Route(self.broker_config, monitor, ""),
            RequestCode.UPDATE_BROKER_CONFIG: Route(self.update_config, Action.ADMIN, ""),
            RequestCode.VIEW_BROKER_STATS_DATA: Route(self.statistics, monitor, ""),
        }

    # --- state --------------------------------------------------------------------------------------------------------

    def runtime_info(self, frame: Frame, connection: Connection) -> None:
        table = dict.fromkeys(_ZEROS, "0") | self._of_broker() | self._of_traffic()
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"table": table}))

    def _of_broker(self) -> dict[str, str]:
        vitals = self._physician.vitals()
        total_gib, free_gib = vitals.disk_bytes / _GIB, vitals.disk_free_bytes / _GIB
        return {
            "bootTimestamp": str(self._boot_ms),
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": f"penstock {__version__}",
            "commitLogDirCapacity": f"Total : {total_gib:.1f} GiB, Free : {free_gib:.1f} GiB.",
            "commitLogDiskRatio": f"{vitals.disk_share:.4f}",
            "commitLogMaxOffset": str(vitals.log_end),
            "earliestMessageTimeStamp": str(vitals.earliest_ms),
            "remainHowManyDataToFlush": f"{vitals.log_end - vitals.log_durable} B",
            "runtime": _lasted(self._physician.now_ms() - self._boot_ms),
        }

    def _of_traffic(self) -> dict[str, str]:
        rates = self._traffic.rates()
        yesterday, today, now = self._traffic.days()
        delivered = " ".join(f"{rate:.2f}" for rate in rates.delivered)
        return {
            "putTps": " ".join(f"{rate:.2f}" for rate in rates.published),
            "getTransferedTps": delivered,  # so it was spelt up to 5.3
            "getTransferredTps": delivered,
            "msgPutTotalYesterdayMorning": str(yesterday[0]),
            "msgPutTotalTodayMorning": str(today[0]),
            "msgPutTotalTodayNow": str(now[0]),
            "msgGetTotalYesterdayMorning": str(yesterday[1]),
            "msgGetTotalTodayMorning": str(today[1]),
            "msgGetTotalTodayNow": str(now[1]),
        }

    # --- settings -----------------------------------------------------------------------------------------------------

    def broker_config(self, frame: Frame, connection: Connection) -> None:
        """The settings that have a name at RocketMQ."""
        broker, rocketmq, store = self._config.broker, self._config.rocketmq, self._config.store
        sync = store.durability == Durability.SYNC
        settings: dict[str, object] = {
            "brokerName": BROKER,
            "brokerClusterName": CLUSTER,
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "brokerPermission": READ_WRITE,
            "brokerIP1": self._house.host_for(connection),
            "listenPort": self._house.port,
            "flushDiskType": "SYNC_FLUSH" if sync else "ASYNC_FLUSH",
            "maxMessageSize": broker.message_bytes_max,
            "fileReservedTime": broker.retention_ms // 3_600_000,
            "defaultTopicQueueNums": DEFAULT_TOPIC_QUEUES,
            "autoCreateTopicEnable": _text(rocketmq.auto_create_topics),
            "autoCreateSubscriptionGroup": _text(rocketmq.auto_create_groups),
            "longPollingEnable": _text(True),
            "enablePropertyFilter": _text(True),
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        ext = {"version": '{"counter":0,"timestamp":0}'}
        connection.reply(frame, ResponseCode.SUCCESS, ext=ext, body=text.encode())

    def update_config(self, frame: Frame, connection: Connection) -> None:
        why = "the settings of a running broker are not changed: change its configuration file, and start it again"
        raise Refused(ResponseCode.NO_PERMISSION, why)

    # --- statistics ---------------------------------------------------------------------------------------------------

    def statistics(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Stats, frame)
        found = STATISTICS.get(asked.statsName)
        if found is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the statistics {asked.statsName!r} are not kept here")
        body = _stats_data(found.sums(self, asked.statsKey), found.of)
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def published(self, topic: str) -> Sums:
        return self._minutes.published(topic)

    def of_pair(self, key: str, back: bool) -> Sums:
        """Of `topic@group`; neither holds an @."""
        topic, _, group = key.partition("@")
        tracks = self._traffic.returned if back else self._traffic.consumed
        return tracks.sums(self._physician.now_ms(), lambda pair: pair == (group, topic))

    def of_all(self, put: bool) -> Sums:
        tracks = self._traffic.produced if put else self._traffic.consumed
        return tracks.sums(self._physician.now_ms(), lambda pair: True)


class _Kind(msgspec.Struct, frozen=True):
    sums: Callable[[Figures, str], Sums]
    of: Callable[[Count], int]


def _messages(count: Count) -> int:
    return count.messages


def _bytes(count: Count) -> int:
    return count.bytes


STATISTICS = {
    "TOPIC_PUT_NUMS": _Kind(Figures.published, _messages),
    "TOPIC_PUT_SIZE": _Kind(Figures.published, _bytes),
    "GROUP_GET_NUMS": _Kind(lambda figures, key: figures.of_pair(key, back=False), _messages),
    "GROUP_GET_SIZE": _Kind(lambda figures, key: figures.of_pair(key, back=False), _bytes),
    "SNDBCK_PUT_NUMS": _Kind(lambda figures, key: figures.of_pair(key, back=True), _messages),
    "BROKER_PUT_NUMS": _Kind(lambda figures, key: figures.of_all(put=True), _messages),
    "BROKER_GET_NUMS": _Kind(lambda figures, key: figures.of_all(put=False), _messages),
}


def _stats_data(sums: Sums, of: Callable[[Count], int]) -> dict[str, object]:
    parts = {"statsMinute": (sums.minute, _MINUTE_S), "statsHour": (sums.hour, _HOUR_S), "statsDay": (sums.day, _DAY_S)}
    return {
        name: {"avgpt": 0.0, "sum": of(count), "tps": round(of(count) / seconds, 4)}
        for name, (count, seconds) in parts.items()
    }


def _text(value: bool) -> str:
    return "true" if value else "false"


def _lasted(ms: int) -> str:
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"[ {hours // 24} days, {hours % 24} hours, {minutes} minutes, {seconds} seconds ]"

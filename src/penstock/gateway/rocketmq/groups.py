"""Settings of consumer groups: what operators set (200, 207, 225) and ask (201, 352), and what follows for the others.

All names here are RocketMQ's. What it calls consumeFromMinEnable, brokerId and whichBrokerWhenConsumeSlowly is kept and
shown, and means nothing here: the first is read by no RocketMQ broker either, the others are about replicas.
"""

import json
from typing import Literal

import msgspec

from penstock.core.group_settings import GroupSettings, GroupsSettings
from penstock.core.groups import Groups
from penstock.core.offsets import Offsets
from penstock.core.topics import Topics, TopicSettings
from penstock.errors import BadGroupSettings, BadTopicName
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.later import Later
from penstock.gateway.rocketmq.produce import RETRY_PREFIX, check_rocketmq_name, is_rocketmq_name
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, body_as, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

_OWN_PREFIX = "CID_RMQ_SYS_"
_OWN = frozenset(("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONSAPI_OWNER"))
GROUP_BYTES_MAX = 255  # of a name, as in RocketMQ
_DEPTH_MAX = 16
_REST = "rocketmq"  # the attribute with what is kept and shown
_SHOWN = {"brokerId": 0, "consumeFromMinEnable": True, "whichBrokerWhenConsumeSlowly": 1}


class _Settings(msgspec.Struct, rename="camel"):
    group_name: str
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    retry_queue_nums: int = 1
    retry_max_times: int = 16


class _Many(msgspec.Struct, rename="camel"):
    group_config_list: list[msgspec.Raw] = []


class _Delete(msgspec.Struct, rename="camel"):
    group_name: str
    clean_offset: bool = False  # its name since 5.0
    remove_offset: bool = False  # and before


class _Of(msgspec.Struct):
    group: str


class GroupRules:
    """What holds for a group. With `auto_create` off, a group has to be set before it may do anything."""

    def __init__(self, settings: GroupsSettings, offsets: Offsets, auto_create: bool) -> None:
        self._settings, self._offsets, self._auto_create = settings, offsets, auto_create

    def standing(self, name: str) -> GroupSettings | Literal[False] | None:
        """What a group's right to consume stands on: as long as this is the same, so is that. False when it cannot be
        told that easily.
        """
        return self._settings.find(name) or (None if self._auto_create else False)

    def known(self, name: str) -> bool:
        if not is_rocketmq_name(name, GROUP_BYTES_MAX):
            return False
        own = name in _OWN or name.startswith(_OWN_PREFIX)
        return self._auto_create or own or name in self._settings or self._offsets.knows(name)

    def of(self, name: str) -> GroupSettings:
        """Raises when the group is not known and has to be."""
        if not self.known(name):
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, _unknown(name))
        return self._settings.of(name)

    def check_consume(self, name: str) -> None:
        """Raises when the group is not known, or may not consume."""
        self.of(name)
        self._settings.check_consume(name)


def _unknown(name: str) -> str:
    if not is_rocketmq_name(name, GROUP_BYTES_MAX):
        kinds = f"1 to {GROUP_BYTES_MAX} letters, digits, %, |, - and _"
        return f"{name[:GROUP_BYTES_MAX]!r} cannot be a group: names of groups are {kinds}"
    return f"group {name!r} does not exist: create it (mqadmin updateSubGroup), or set auto_create_groups"


class GroupAdmin:
    def __init__(
        self, settings: GroupsSettings, rules: GroupRules, topics: Topics, groups: Groups, offsets: Offsets
    ) -> None:
        self._settings, self._rules, self._topics = settings, rules, topics
        self._groups, self._offsets, self._later = groups, offsets, Later()

    def routes(self) -> Routes:
        monitor, admin = Action.MONITOR, Action.ADMIN
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Route(self.update, admin, ""),
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Route(self.update_many, admin, ""),
            RequestCode.DELETE_SUBSCRIPTIONGROUP: Route(self.delete, admin, "groupName"),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Route(self.all, monitor, ""),
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Route(self.one, monitor, "group"),
        }

    def update(self, frame: Frame, connection: Connection) -> None:
        body_as(_Settings, frame)  # says what is wrong with it
        self._later(frame, connection, self._updated([settings_in(bytes(frame.body))]))

    def update_many(self, frame: Frame, connection: Connection) -> None:
        found = [settings_in(bytes(part)) for part in body_as(_Many, frame).group_config_list]
        self._later(frame, connection, self._updated(found))

    async def _updated(self, found: list[GroupSettings]) -> bytes:
        for settings in found:
            await self._settings.put(settings)
            await self._widen(settings)
        return b""

    async def _widen(self, settings: GroupSettings) -> None:
        """A retry topic that is there gets more queues, never fewer: messages may wait in them."""
        topic = self._topics.find(RETRY_PREFIX + settings.name)
        wanted = settings.retry_queues
        if topic is not None and topic.queue_count < wanted:
            await self._topics.alter(topic.name, TopicSettings(read_queues=wanted, write_queues=wanted))

    def delete(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Delete, frame)
        if asked.clean_offset or asked.remove_offset:
            self._offsets.forget_group(asked.group_name)
        self._later(frame, connection, self._deleted(asked.group_name))

    async def _deleted(self, name: str) -> bytes:
        await self._settings.delete(name)
        return b""

    def all(self, frame: Frame, connection: Connection) -> None:
        """Those that were set, and those that are there without it."""
        names = {settings.name for settings in self._settings} | {group.name for group in self._groups}
        table = {name: shown(self._settings.of(name)) for name in sorted(names.union(self._offsets.all_groups()))}
        body = {"dataVersion": {"counter": 0, "timestamp": 0}, "forbiddenTable": {}, "subscriptionGroupTable": table}
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def one(self, frame: Frame, connection: Connection) -> None:
        settings = self._rules.of(ext_as(_Of, frame).group)
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(shown(settings)))


def settings_in(body: bytes) -> GroupSettings:
    """Settings as a tool sends them. What has no meaning here is kept as it was said."""
    try:
        said = msgspec.json.decode(body, type=_Settings, strict=False)
        everything = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the settings of a group cannot be read: {error}") from None
    try:
        check_rocketmq_name(RETRY_PREFIX + said.group_name)
    except BadTopicName as error:
        raise BadGroupSettings(said.group_name, f"its retry topic would have a wrong name: {error}") from None
    ours = {field.encode_name for field in msgspec.structs.fields(_Settings)}
    rest = {key: value for key, value in everything.items() if key not in ours}
    if not _shallow(rest, _DEPTH_MAX):
        raise BadGroupSettings(said.group_name, f"they are nested more than {_DEPTH_MAX} deep")
    return GroupSettings(
        name=said.group_name,
        consume=said.consume_enable,
        broadcast=said.consume_broadcast_enable,
        notify=said.notify_consumer_ids_changed_enable,
        retry_queues=said.retry_queue_nums,
        retries_max=said.retry_max_times,
        attributes={_REST: json.dumps(rest)} if rest else {},
    )


def _shallow(value: object, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_shallow(part, depth - 1) for part in inner)


def shown(settings: GroupSettings) -> dict[str, object]:
    """Settings as tools read them."""
    said = _Settings(
        settings.name,
        settings.consume,
        settings.broadcast,
        settings.notify,
        settings.retry_queues,
        settings.retries_max,
    )
    rest: dict[str, object] = json.loads(settings.attributes.get(_REST, "{}"))
    typed: dict[str, object] = msgspec.to_builtins(said)
    return _SHOWN | rest | typed

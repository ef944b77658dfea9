"""Addresses that clients are told, as an operator writes them (`server.advertise`)."""

import re

from penstock.errors import ConfigError

PULSAR = "pulsar://"  # in front of what is meant for Pulsar's clients alone

_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<bare>[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*)|(?P<host>[^\[\]:/\s]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


def advertised(text: str) -> tuple[str, int]:
    """Host and port of HOST, HOST:PORT, [V6], [V6]:PORT or a bare V6; port 0 when there is none."""
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or 0) if found else 0
    if not found or port > 65_535 or found["port"] == "0":
        raise ConfigError(f"{text!r} cannot be advertised: give HOST, HOST:PORT or [IPV6]:PORT (--advertise)")
    return found["v6"] or found["bare"] or found["host"], port


def for_rocketmq(advertise: list[str]) -> tuple[str, int]:
    """What RocketMQ's clients are told: the first that is not for others. Empty when there is none."""
    for text in advertise:
        if not text.startswith(PULSAR):
            return advertised(text)
    return "", 0


def for_pulsar(advertise: list[str]) -> tuple[str, int]:
    """What Pulsar's clients are told: what is meant for them, or else the host of the first. Port 0: the one that is
    listened on. Empty when there is none.
    """
    for text in advertise:
        if text.startswith(PULSAR):
            return advertised(text.removeprefix(PULSAR))
    return (advertised(advertise[0])[0], 0) if advertise else ("", 0)


def joined(host: str, port: int) -> str:
    """HOST:PORT, with brackets where they belong."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

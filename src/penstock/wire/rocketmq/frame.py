"""Frames and headers: bytes to requests, answers to bytes. Sans-IO and plural: all frames of one read at once.

    int32 length of what follows | int8 header type, int24 header length | header | body

A header is JSON (type 0) or RocketMQ's own binary form (type 1); an answer takes the form of its request, frame by
frame. Ext fields are strings on the wire and come as a dict; `requests` has typed ones for the hot path.

A length is checked against the limits and against what is there before anything is allocated. A frame whose header
cannot be read loses the framing's meaning: `FrameError`, and the connection has to be closed.
"""

import struct
from collections.abc import Callable, Mapping

import msgspec

from penstock.wire.framing import FrameError
from penstock.wire.rocketmq.codes import Flag

FRAME_BYTES_MAX = 16 * 1024 * 1024
JSON, BINARY = 0, 1

_HEAD = struct.Struct(">II")
_BINARY = struct.Struct(">HBHii")  # code, language, version, opaque, flag

LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST")
_LANGUAGE_CODES = {name: code for code, name in enumerate(LANGUAGES)}


class Frame(msgspec.Struct, gc=False):
    """One frame. `ext` holds strings; `body` is a view into the receive buffer, valid until the handler returns."""

    code: int
    opaque: int
    flag: int
    version: int
    language: str
    remark: str
    ext: dict[str, str]
    body: memoryview
    form: int  # JSON or BINARY
    typed: msgspec.Struct | None = None  # instead of `ext`: see `requests`

    @property
    def oneway(self) -> bool:
        return bool(self.flag & Flag.ONEWAY)

    @property
    def is_response(self) -> bool:
        return bool(self.flag & Flag.RESPONSE)


class _JsonHeader(msgspec.Struct, gc=False):
    code: int
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str | int | None = "JAVA"
    remark: str | None = None
    extFields: dict[str, str | int | float | bool | None] | None = None  # noqa: N815  # the wire's name


_json = msgspec.json.Decoder(_JsonHeader, strict=False)


Decode = Callable[[memoryview, memoryview, int], Frame]  # header, body, form


def frames_in(view: memoryview, end: int, decode: Decode | None = None, at: int = 0) -> tuple[list[Frame], int]:
    """All complete frames in `view[at:end]`, and where they end."""
    frames: list[Frame] = []
    decode, unpack = decode or decoded, _HEAD.unpack_from
    while end - at >= 8:
        length, head = unpack(view, at)
        header_bytes, form = head & 0xFFFFFF, head >> 24
        if length > FRAME_BYTES_MAX or length < 4 + header_bytes:
            raise FrameError(
                f"a frame of {length} bytes with a header of {header_bytes}: at most {FRAME_BYTES_MAX} are taken"
            )
        behind = at + 4 + length
        if behind > end:
            break
        body_at = at + 8 + header_bytes
        frames.append(decode(view[at + 8 : body_at], view[body_at:behind], form))
        at = behind
    return frames, at


def decoded(header: memoryview, body: memoryview, form: int) -> Frame:
    """A frame with its ext fields as a dict."""
    try:
        if form == JSON:
            return _from_json(header, body)
        if form == BINARY:
            return _from_binary(header, body)
    except (msgspec.DecodeError, struct.error, ValueError, RecursionError) as error:
        raise FrameError(f"a header cannot be read: {error}") from None
    raise FrameError(f"header type {form} is not known")


def _from_json(header: memoryview, body: memoryview) -> Frame:
    found = _json.decode(header)
    language = found.language if isinstance(found.language, str) else "OTHER"
    ext = _texts(found.extFields or {})
    return Frame(found.code, found.opaque, found.flag, found.version, language, found.remark or "", ext, body, JSON)


def _texts(ext: "dict[str, str | int | float | bool | None]") -> dict[str, str]:
    """Nearly always strings already; one client sends bare numbers and booleans."""
    return {key: value if isinstance(value, str) else text(value) for key, value in ext.items() if value is not None}


def text(value: object) -> str:
    """A value as the ext fields of a frame have it."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def _from_binary(header: memoryview, body: memoryview) -> Frame:
    code, language, version, opaque, flag = _BINARY.unpack_from(header)
    at = _BINARY.size
    remark, at = _long_text(header, at)
    (ext_bytes,) = struct.unpack_from(">i", header, at)
    at += 4
    if ext_bytes < 0 or at + ext_bytes > len(header):
        raise ValueError("the ext fields are longer than the header")
    ext: dict[str, str] = {}
    until = at + ext_bytes
    while at < until:
        (key_bytes,) = struct.unpack_from(">h", header, at)
        if key_bytes < 0 or at + 2 + key_bytes > until:
            raise ValueError("an ext field's name is longer than the ext fields")
        key, at = str(header[at + 2 : at + 2 + key_bytes], "utf-8"), at + 2 + key_bytes
        value, at = _long_text(header[:until], at)
        ext[key] = value
    name = LANGUAGES[language] if language < len(LANGUAGES) else "OTHER"
    return Frame(code, opaque, flag, version, name, remark, ext, body, BINARY)


def _long_text(header: memoryview, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">i", header, at)
    if length < 0 or at + 4 + length > len(header):
        raise ValueError("a text is longer than the header")
    return str(header[at + 4 : at + 4 + length], "utf-8"), at + 4 + length


# --- writing ----------------------------------------------------------------------------------------------------------


def pack(
    code: int,
    opaque: int,
    flag: int,
    version: int,
    form: int = JSON,
    remark: str = "",
    ext: Mapping[str, str] | None = None,
    body: bytes = b"",
    language: str = "JAVA",
) -> bytes:
    """A frame, with its body. (The pull path joins head and body itself, see `pack_head`.)"""
    return pack_head(code, opaque, flag, version, form, remark, ext, len(body), language) + body


def pack_head(
    code: int,
    opaque: int,
    flag: int,
    version: int,
    form: int,
    remark: str,
    ext: Mapping[str, str] | None,
    body_bytes: int,
    language: str = "JAVA",
) -> bytes:
    """A frame up to where its body begins."""
    if form == BINARY:
        header = _binary_header(code, opaque, flag, version, remark, ext or {}, language)
    else:
        header = _json_header(code, opaque, flag, version, remark, ext, language)
    return _HEAD.pack(4 + len(header) + body_bytes, form << 24 | len(header)) + header


def _json_header(
    code: int, opaque: int, flag: int, version: int, remark: str, ext: Mapping[str, str] | None, language: str
) -> bytes:
    header: dict[str, object] = {"code": code, "flag": flag, "language": language, "opaque": opaque}
    header |= {"serializeTypeCurrentRPC": "JSON", "version": version}
    if remark:
        header["remark"] = remark
    if ext is not None:
        header["extFields"] = ext
    return msgspec.json.encode(header)


def _binary_header(
    code: int, opaque: int, flag: int, version: int, remark: str, ext: Mapping[str, str], language: str
) -> bytes:
    parts = [_BINARY.pack(code, _LANGUAGE_CODES.get(language, 7), version, opaque, flag)]
    told = remark.encode()
    parts += [struct.pack(">i", len(told)), told]
    fields = b"".join(
        struct.pack(f">h{len(name)}si{len(value)}s", len(name), name, len(value), value)
        for name, value in ((key.encode(), value.encode()) for key, value in ext.items())
    )
    return b"".join([*parts, struct.pack(">i", len(fields)), fields])

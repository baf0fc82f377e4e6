"""Protobuf messages, read without their schema."""

import io
from collections.abc import Iterator
from typing import Any


def read_message(message: bytes) -> Iterator[tuple[int, Any]]:
    """The number and value of each field of a message, which leaves out fields that are zero."""
    stream = io.BytesIO(message)
    while stream.tell() < len(message):
        number, wire_type = divmod(read_varint(stream), 8)
        if wire_type == 0:
            yield number, read_varint(stream)
        elif wire_type == 2:
            yield number, stream.read(read_varint(stream))
        else:
            yield number, int.from_bytes(stream.read(8 if wire_type == 1 else 4), "little")


def read_varint(stream: io.BytesIO) -> int:
    value = shift = 0
    while (byte := stream.read(1)[0]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
    return value | byte << shift

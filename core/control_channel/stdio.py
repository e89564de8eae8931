"""A child's end of its control channel: the pipes that its host gave it.

Everything else that prints (a JVM, libraries) is turned to stderr, so pipes carry
nothing but messages. It must not know what they mean.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO
from typing import Any

from core.control_channel.channel import Channel, PipeStream

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class ControlPipe:
    """Of a process that ends with its host."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def silent_for(self) -> float:
        return self._channel.silence.seconds

    def send(self, kind: str, **payload: Any) -> None:
        """Raises BrokenPipeError when nobody listens any more."""
        self._channel.send({"type": kind, **payload})

    def messages(self) -> Iterator[dict[str, Any]]:
        """Messages until the other side closes."""
        return self._channel.messages()


def take_over_stdio() -> ControlPipe:
    """Moves stdin and stdout to private descriptors that no child inherits."""
    inbound, outbound = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    pipes = PipeStream(FileIO(inbound, "rb"), FileIO(outbound, "wb"))
    return ControlPipe(Channel(pipes))

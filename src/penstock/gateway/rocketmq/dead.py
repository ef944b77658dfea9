"""What is told of messages that a group gives up, whoever finds that out: `retry` or `produce`."""

from collections.abc import Callable, Mapping

from penstock.clock import Clock
from penstock.core.events import Bus, DeadLetter
from penstock.wire.rocketmq import properties as props

DLQ_PREFIX = "%DLQ%"

Tell = Callable[[str, Mapping[str, str], int], None]  # the group, the message's properties, how often it was tried


def teller(clock: Clock, bus: Bus) -> Tell:
    def tell(group: str, properties: Mapping[str, str], tries: int) -> None:
        bus.emit(
            DeadLetter(
                at_ms=clock.now_ms(),
                group=group,
                topic=properties.get(props.RETRY_TOPIC, ""),
                message_id=properties.get(props.UNIQ_KEY) or properties.get(props.ORIGIN_ID, ""),
                tries=tries,
                dead_letter_topic=DLQ_PREFIX + group,
            )
        )

    return tell

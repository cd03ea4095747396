"""Flower in one process: client apps that answer one after another, for tests and studies without Ray."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

SERVER = 1  # Flower's number of the SuperLink


class LocalGrid(Grid):  # type: ignore[misc]
    """A grid whose nodes live in this process and run ``app``; node i has the partition i.

    ``nodes`` says how many there are, or their ids. ``node_config`` is added to the configuration of every
    node, ``run_config`` is that of the run, which all nodes know.
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: int | Sequence[int],
        node_config: Mapping[str, Any] | None = None,
        run_config: Mapping[str, Any] | None = None,
    ) -> None:
        ids = list(range(1001, 1001 + nodes)) if isinstance(nodes, int) else list(nodes)
        self.app = app
        self.contexts = {}
        for i, node in enumerate(ids):
            own = {"partition-id": i, "num-partitions": len(ids), **(node_config or {})}
            self.contexts[node] = Context(1, node, own, RecordDict(), dict(run_config or {}))
        _introduce()

    def restart(self, node: int) -> None:
        """Forget a node's state, as a restart of its process would."""
        self.contexts[node].state = RecordDict()

    run: Any = None  # there is one, and no description of it

    def set_run(self, run: Any) -> None:
        """Do nothing."""

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are there."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Refuse: here messages are answered at once."""
        raise NotImplementedError("LocalGrid answers at once: call send_and_receive")

    pull_messages = push_messages

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Let every node answer in turn."""
        return [self.answer(message) for message in messages]

    def answer(self, message: Message) -> Message:
        """Return one node's reply; an exception becomes an error, as in Flower."""
        try:
            return self.app(message, self.contexts[message.metadata.dst_node_id])
        except Exception as error:
            return Message(Error(code=2, reason=f"{type(error).__name__}: {error}"), reply_to=message)


def _introduce() -> None:
    """Say who sends the messages, which Flower wants to know from version 1.39 on."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SERVER

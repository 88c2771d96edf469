"""The Agent2Agent protocol's Python client, unchanged, against the daemon."""

import asyncio
import unittest
import uuid

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import get_artifact_text, new_text_message
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from daemon import Daemon

QUESTION = "We move the orders database on Friday 6 March. When does it move?"
BINDINGS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]


def says(text, **more):
    message = new_text_message(text, role=Role.ROLE_USER)
    message.message_id = str(uuid.uuid4())
    for name, value in more.items():
        setattr(message, name, value)
    return SendMessageRequest(message=message)


def answer(task):
    return next(get_artifact_text(one) for one in task.artifacts if one.artifact_id == "answer")


class A2A(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon('[models]\ndefault = "extractive"\n[turn]\nagents = ["facts"]\n')

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def each(self, work, path=""):
        """Does that with a client of each binding, streaming and not."""

        async def one(binding, streaming):
            headers = {"Authorization": f"Bearer {self.daemon.token}"}
            async with httpx.AsyncClient(headers=headers, timeout=60) as http:
                config = ClientConfig(
                    httpx_client=http, supported_protocol_bindings=[binding], streaming=streaming,
                )
                client = await ClientFactory(config).create_from_url(self.daemon.url + path)
                await work(client, streaming)

        for binding in BINDINGS:
            for streaming in (False, True):
                with self.subTest(binding=binding, streaming=streaming):
                    asyncio.run(one(binding, streaming))

    def test_a_task_is_given_continued_listed_and_not_cancelled_once_it_has_ended(self):
        async def work(client, streaming):
            events = [event async for event in client.send_message(says(QUESTION))]
            self.assertEqual(events[0].WhichOneof("payload"), "task")
            task = await client.get_task(GetTaskRequest(id=events[0].task.id))
            self.assertEqual(task.status.state, TaskState.TASK_STATE_COMPLETED)
            self.assertIn("6 March", answer(task))
            self.assertEqual([one.name for one in task.artifacts], ["lead", "facts"])

            async for _ in client.send_message(says("When do we move the orders?", context_id=task.context_id)):
                pass
            listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id, page_size=1))
            self.assertEqual((listed.total_size, len(listed.tasks)), (2, 1))
            self.assertNotEqual(listed.next_page_token, "")
            refers = says("On which day was that?")
            refers.message.reference_task_ids.append(task.id)
            events = [event async for event in client.send_message(refers)]
            later = await client.get_task(GetTaskRequest(id=events[0].task.id))
            self.assertEqual(list(later.history[0].reference_task_ids), [task.id])
            self.assertEqual(later.history[0].message_id, refers.message.message_id)
            refers = says("And that?")
            refers.message.reference_task_ids.append("nothing")
            with self.assertRaises(TaskNotFoundError):
                async for _ in client.send_message(refers):
                    pass
            with self.assertRaises(TaskNotCancelableError):
                await client.cancel_task(CancelTaskRequest(id=task.id))
            with self.assertRaises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id="nothing"))
            if streaming:
                with self.assertRaises(UnsupportedOperationError):
                    async for _ in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                        pass
            with self.assertRaises(UnsupportedOperationError):
                async for _ in client.send_message(says("And now?", task_id=task.id)):
                    pass

        self.each(work)

    def test_an_agent_works_alone(self):
        async def work(client, _):
            events = [event async for event in client.send_message(says(QUESTION))]
            task = await client.get_task(GetTaskRequest(id=events[0].task.id))
            self.assertEqual([one.name for one in task.artifacts], ["facts"])

        self.each(work, "/a2a/agents/facts")


if __name__ == "__main__":
    unittest.main()

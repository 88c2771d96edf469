"""An agent on the Agent2Agent protocol's Python server, unchanged, as a delegate of ours."""

import socket
import threading
import unittest

import httpx
import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.utils.constants import TransportProtocol
from starlette.applications import Starlette

from daemon import Daemon

TALK = [{"role": "user", "content": "We move the orders database on Friday 6 March."}]


class Counts(AgentExecutor):
    """Says how often it finds a day in what it is given."""

    def __init__(self, refuses):
        self.refuses = refuses

    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if self.refuses:
            await updater.reject(updater.new_agent_message([new_text_part("I count on Mondays only.")]))
            return
        count = str(context.message).count("Friday 6 March")
        await updater.add_artifact([new_text_part(f"Found {count}.")], name="answer")
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class Remote:
    """The agent's server, with one binding."""

    def __init__(self, binding, streaming, refuses=False):
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        card = AgentCard(
            name="counts", description="Counts days.", version="1",
            supported_interfaces=[
                AgentInterface(url=f"{self.url}/a2a", protocol_binding=binding, protocol_version="1.0"),
            ],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain"], default_output_modes=["text/plain"],
            skills=[AgentSkill(id="count", name="Count", description="Counts days.", tags=["days"])],
        )
        handler = DefaultRequestHandler(
            agent_executor=Counts(refuses), task_store=InMemoryTaskStore(), agent_card=card,
        )
        routes = [
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, rpc_url="/a2a"),
            *create_rest_routes(handler, path_prefix="/a2a"),
        ]
        self.server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
        self.thread.start()

    def stop(self):
        self.server.should_exit = True
        self.thread.join(timeout=60)


class Delegates(unittest.TestCase):
    def asked(self, remote):
        """What a turn comes to that the remote agent leads."""
        settings = f'[agents.far]\ndescription = "Counts"\nkind = "a2a"\nurl = "{remote.url}"\nretries = 0\n'
        daemon = Daemon(settings)
        try:
            headers = {"Authorization": f"Bearer {daemon.token}"}
            with httpx.Client(base_url=daemon.url, headers=headers, timeout=60) as client:
                made = client.post("/v1/sessions", json={"messages": TALK}).json()
                task = {"task": "Which day?", "lead": "far", "agents": []}
                return client.post(f"/v1/sessions/{made['session']}/turns", json=task).json()
        finally:
            daemon.stop()
            remote.stop()

    def test_an_agent_is_given_the_context_and_its_answer_is_taken(self):
        for streaming in (False, True):
            with self.subTest(streaming=streaming):
                turn = self.asked(Remote(TransportProtocol.JSONRPC, streaming))
                self.assertEqual(turn["state"], "answered", turn)
                self.assertRegex(turn["answer"], r"^Found [1-9]\d*\.$")

    def test_an_agent_that_refuses_fails_the_run_with_its_reason(self):
        turn = self.asked(Remote(TransportProtocol.JSONRPC, True, refuses=True))
        self.assertEqual(turn["state"], "failed", turn)
        self.assertIn("I count on Mondays only.", str(turn))

    def test_an_agent_without_json_rpc_is_told_apart(self):
        turn = self.asked(Remote(TransportProtocol.HTTP_JSON, True))
        self.assertIn("no interface of JSON-RPC", turn["error"]["reason"])


if __name__ == "__main__":
    unittest.main()

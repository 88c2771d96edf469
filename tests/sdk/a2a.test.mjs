// The protocol's own JavaScript client against the daemon, in both bindings.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { randomUUID } from "node:crypto";
import { Role, TaskState } from "@a2a-js/sdk";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  createAuthenticatingFetchWithRetry,
} from "@a2a-js/sdk/client";
import { Place } from "../ui/place.mjs";
import { model, settings } from "../ui/tools.mjs";

let place;

before(async () => {
  place = await new Place('[models]\ndefault = "extractive"\n[turn]\nagents = ["facts"]\n').serve();
});

after(async () => place?.stop());

// A client of a place, found by the card at an address.
async function clientOf(at, transport = JsonRpcTransportFactory, base = "", token = at.token) {
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => ({ Authorization: `Bearer ${token}` }),
    shouldRetryWithHeaders: async () => undefined,
  });
  const transports = [new transport({ fetchImpl })];
  const factory = new ClientFactory({ transports, cardResolver: new DefaultAgentCardResolver() });
  return factory.createFromUrl(at.address + base);
}

const says = (text, more = {}) => ({
  tenant: "",
  message: {
    messageId: randomUUID(),
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [part(text)],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
  configuration: undefined,
  metadata: undefined,
});
const part = (text) => ({ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "text/plain" });
const textOf = (artifact) => artifact.parts.map(({ content }) => content.value).join("");
const hasAnswer = (task) => task.artifacts.some(({ artifactId }) => artifactId === "answer");
const answer = (task) => textOf(task.artifacts.find(({ artifactId }) => artifactId === "answer"));
const question = "We move the orders database on Friday 6 March. When does it move?";

for (const transport of [JsonRpcTransportFactory, RestTransportFactory]) {
  test(`a task is given, told again, continued, listed and cancelled: ${transport.name}`, async () => {
    const client = await clientOf(place, transport);
    assert.equal(client.protocolVersion, "1.0");
    const asked = says(question);
    const task = await client.sendMessage(asked);
    assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
    assert.match(answer(task), /6 March/);
    assert.deepEqual(task.artifacts.map(({ name }) => name), ["lead", "facts"]);
    assert.ok(task.status.timestamp);
    assert.deepEqual(await client.sendMessage(asked), task, "sent again it is the same");
    assert.deepEqual(await client.getTask({ tenant: "", id: task.id }), task);

    const next = await client.sendMessage(says("When do we move the orders?", { contextId: task.contextId }));
    assert.equal(next.contextId, task.contextId);
    assert.match(answer(next), /Friday/);
    const page = { tenant: "", contextId: task.contextId, pageSize: 1, pageToken: "", status: 0 };
    const first = await client.listTasks(page);
    assert.deepEqual([first.totalSize, first.tasks[0].id], [2, next.id]);
    const second = await client.listTasks({ ...page, pageToken: first.nextPageToken });
    assert.deepEqual([second.tasks[0].id, second.nextPageToken], [task.id, ""]);
    const refers = await client.sendMessage(says("On which day was that?", { referenceTaskIds: [task.id] }));
    assert.deepEqual(refers.history[0].referenceTaskIds, [task.id]);
    const nothing = says("And that?", { referenceTaskIds: ["nothing"] });
    await assert.rejects(client.sendMessage(nothing), { name: "TaskNotFoundError" });
    await assert.rejects(client.cancelTask({ tenant: "", id: task.id }), { name: "TaskNotCancelableError" });
    await assert.rejects(client.getTask({ tenant: "", id: "nothing" }), { name: "TaskNotFoundError" });
    const file = { ...part(""), content: { $case: "url", value: "https://example.com/a.png" }, mediaType: "image/png" };
    await assert.rejects(client.sendMessage(says("", { parts: [file] })), { name: "ContentTypeNotSupportedError" });
    const late = says("And now?", { taskId: task.id });
    await assert.rejects(client.sendMessage(late), { name: "UnsupportedOperationError" });
  });

  test(`a task is streamed: ${transport.name}`, async () => {
    const client = await clientOf(place, transport);
    const cases = [];
    let text = "";
    let state;
    for await (const { payload } of client.sendMessageStream(says(question))) {
      cases.push(payload.$case);
      const { value } = payload;
      if (payload.$case === "task" && hasAnswer(value)) text = answer(value);
      if (payload.$case === "artifactUpdate" && value.artifact.artifactId === "answer") {
        text = (value.append ? text : "") + textOf(value.artifact);
      }
      if (value.status) state = value.status.state;
    }
    assert.equal(cases[0], "task");
    assert.match(text, /6 March/);
    assert.equal(state, TaskState.TASK_STATE_COMPLETED);
  });
}

test("an agent has a card of its own and works alone", async () => {
  const client = await clientOf(place, RestTransportFactory, "/a2a/agents/facts/");
  const card = await client.getAgentCard();
  assert.equal(card.name, "facts");
  const task = await client.sendMessage(says(question));
  assert.deepEqual(task.artifacts.map(({ name }) => name), ["facts"]);
});

test("a wrong token is refused", async () => {
  for (const transport of [JsonRpcTransportFactory, RestTransportFactory]) {
    const client = await clientOf(place, transport, "", "wrong");
    await assert.rejects(client.sendMessage(says(question)), /401|token/);
  }
});

test("a call that waits is approved by a message", async () => {
  const scripted = await model();
  const at = new Place(settings(scripted.address));
  try {
    await at.serve();
    const client = await clientOf(at);
    const task = await client.sendMessage(says("Pay the bill."));
    assert.equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
    const states = [];
    for await (const { payload } of client.sendMessageStream(says("approve", { taskId: task.id, contextId: task.contextId }))) {
      if (payload.value.status) states.push(payload.value.status.state);
    }
    assert.equal(states.at(-1), TaskState.TASK_STATE_COMPLETED);
  } finally {
    await at.stop();
    await scripted.close();
  }
});

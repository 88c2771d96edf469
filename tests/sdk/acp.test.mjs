// The protocol's own JavaScript client, as an editor has it, against `unisono acp`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join, resolve } from "node:path";
import { Readable, Writable } from "node:stream";
import { test } from "node:test";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";
import { Place } from "../ui/place.mjs";

const binary = process.env.UNISONO ?? join(resolve(import.meta.dirname, "../.."), "target/debug/unisono");

// Works with the program as an editor; answers all that it was told.
async function edit(place, work) {
  const options = { cwd: place.path, env: place.env, stdio: ["pipe", "pipe", "inherit"] };
  const program = spawn(binary, ["acp"], options);
  const gone = new Promise((done) => program.once("exit", done));
  const told = [];
  try {
    const stream = ndJsonStream(Writable.toWeb(program.stdin), Readable.toWeb(program.stdout));
    await client({ name: "editor" })
      .onNotification(methods.client.session.update, ({ params }) => told.push(params.update))
      .connectWith(stream, async (agent) => {
        await agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
        await work(agent, told);
      });
  } finally {
    program.stdin.end();
    assert.equal(await gone, 0);
  }
  return told;
}

const said = (told) =>
  told.filter((one) => one.sessionUpdate === "agent_message_chunk").map((one) => one.content.text).join("");
const begun = { cwd: "/work/harbour", mcpServers: [] };
const prompt = (sessionId, text) => ({ sessionId, prompt: [{ type: "text", text }] });

test("a session is begun, asked, listed, loaded and given another agent", async () => {
  const place = new Place();
  let sessionId;
  const told = await edit(place, async (agent) => {
    const made = await agent.request(methods.agent.session.new, begun);
    ({ sessionId } = made);
    assert.equal(made.configOptions[0].currentValue, "lead");
    const text = "The orders database moves on Friday 6 March. When does it move?";
    const done = await agent.request(methods.agent.session.prompt, prompt(sessionId, text));
    assert.equal(done.stopReason, "end_turn");
  });
  assert.match(said(told), /6 March/);
  const kinds = new Set(told.map((one) => one.sessionUpdate));
  for (const kind of ["plan", "tool_call", "tool_call_update", "usage_update"]) assert.ok(kinds.has(kind), kind);

  const again = await edit(place, async (agent) => {
    const listed = await agent.request(methods.agent.session.list, {});
    assert.deepEqual(listed.sessions.map((one) => one.sessionId), [sessionId]);
    assert.deepEqual(await agent.request(methods.agent.session.list, { cwd: begun.cwd }), listed);
    const elsewhere = await agent.request(methods.agent.session.list, { cwd: "/elsewhere" });
    assert.deepEqual(elsewhere.sessions, []);
    await agent.request(methods.agent.session.load, { sessionId, ...begun });
    const set = { sessionId, configId: "lead", value: "facts" };
    const { configOptions } = await agent.request(methods.agent.session.setConfigOption, set);
    assert.equal(configOptions[0].currentValue, "facts");
    await assert.rejects(agent.request(methods.agent.session.prompt, prompt("nothing", "?")), /nothing/);
  });
  assert.equal(said(again), said(told));
  assert.equal(again.filter((one) => one.sessionUpdate === "user_message_chunk").length, 1);
  // The agents that worked before the answer are shown again, each with its result.
  const agents = (of) => of.filter((one) => one.sessionUpdate === "tool_call" && one.kind === "think").map((one) => one.title);
  assert.ok(agents(told).length > 0);
  assert.deepEqual(agents(again), agents(told));
  assert.ok(again.filter((one) => one.sessionUpdate === "tool_call").every((one) => one.status === "completed"));
});

test("commands are offered and carried out, and a session has the editor's tool servers", async () => {
  const place = new Place();
  const servers = [
    { name: "gone", command: "/nowhere/at/all", args: [], env: [{ name: "TOKEN", value: "secret" }] },
    { type: "http", name: "also gone", url: "http://127.0.0.1:9/mcp", headers: [] },
  ];
  const told = await edit(place, async (agent) => {
    const { sessionId } = await agent.request(methods.agent.session.new, { ...begun, cwd: place.path, mcpServers: servers });
    // What cannot be connected stops nothing.
    for (const text of ["We move on Friday 6 March. When?", "/context", "/agents", "/compact"]) {
      const done = await agent.request(methods.agent.session.prompt, prompt(sessionId, text));
      assert.equal(done.stopReason, "end_turn", text);
    }
  });
  const { availableCommands } = told.find((one) => one.sessionUpdate === "available_commands_update");
  assert.deepEqual(availableCommands.map(({ name }) => name), ["compact", "context", "agents"]);
  assert.match(said(told), /tokens are used[^]*lead \(lead\)[^]*compacted/);
});

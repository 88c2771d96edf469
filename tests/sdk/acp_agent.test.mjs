// A real coding agent, unchanged, as an agent of ours: Codex, by Zed's adapter. Its model is on loopback,
// and calls one tool.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { Place } from "../ui/place.mjs";

const binary = resolve(process.env.UNISONO ?? join(import.meta.dirname, "../../target/debug/unisono"));
const codex = join(import.meta.dirname, "node_modules/.bin/codex-acp");

// OpenAI's responses: a command first, then what it came to.
async function model() {
  const server = createServer(async (request, reply) => {
    let text = "";
    for await (const piece of request) text += piece;
    if (!request.url.endsWith("/responses")) return reply.writeHead(404).end();
    const asks = { cmd: "touch made", sandbox_permissions: "require_escalated", justification: "May I?" };
    const call = { type: "function_call", id: "f", call_id: "c", name: "exec_command", arguments: JSON.stringify(asks) };
    const said = { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "It is made.", annotations: [] }] };
    const isCalled = JSON.parse(text).input.some(({ type }) => type === "function_call_output");
    const item = isCalled ? said : call;
    const usage = { input_tokens: 50, output_tokens: 5, total_tokens: 55 };
    const response = { id: "r", object: "response", created_at: 0, model: "m", usage };
    reply.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (type, rest) => reply.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`);
    send("response.created", { response: { ...response, status: "in_progress", output: [] } });
    send("response.output_item.added", { output_index: 0, item: isCalled ? { ...said, content: [] } : call });
    if (isCalled) send("response.output_text.delta", { item_id: "m", output_index: 0, content_index: 0, delta: "It is made." });
    send("response.output_item.done", { output_index: 0, item });
    send("response.completed", { response: { ...response, status: "completed", output: [item] } });
    reply.end();
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return server;
}

// What a run of the agent with these keys comes to: its report, its record, and whether it made the file.
async function asked(keys, settings) {
  const server = await model();
  const place = new Place();
  const code = join(place.path, "code");
  for (const directory of [code, join(place.path, ".codex")]) mkdirSync(directory);
  const provider = `[model_providers.loop]
name = "Loop"
base_url = "http://127.0.0.1:${server.address().port}/v1"
env_key = "TEST_KEY"
`;
  if (settings) writeFileSync(join(place.path, ".codex/config.toml"), settings + provider);
  const agent = `[models]
default = "extractive"
[turn]
agents = []
[agents.codex]
description = "Codes"
kind = "acp"
command = ${JSON.stringify(codex)}
cwd = ${JSON.stringify(code)}
env_pass = ["TEST_KEY"]
retries = 0
${keys}`;
  writeFileSync(join(place.path, "config/unisono.toml"), agent);
  writeFileSync(join(place.path, "talk.jsonl"), '{"role":"user","content":"We ship on Friday."}\n');
  const call = (...args) => new Promise((done) => {
    const options = { cwd: place.path, env: place.env, timeout: 120_000 };
    execFile(binary, [...args, "--json"], options, (error, stdout, stderr) => done({ stdout, told: `${stdout}${stderr}`, code: error?.code ?? 0 }));
  });
  try {
    const { stdout, told, code: exit } = await call("run", "talk.jsonl", "--lead", "codex", "--task", "Make the file.");
    const [{ run }] = JSON.parse((await call("runs", "list")).stdout);
    const record = JSON.parse((await call("runs", "show", run)).stdout);
    return { report: exit === 0 ? JSON.parse(stdout) : told, record, isMade: existsSync(join(code, "made")) };
  } finally {
    await place.stop();
    server.close();
    server.closeAllConnections();
  }
}

const settings = 'model = "m"\nmodel_provider = "loop"\napproval_policy = "on-request"\n';
const mode = 'options = { mode = "read-only" }\n';

test("a call that a definition allows is made, and the text after it is the answer", async () => {
  const { report, record, isMade } = await asked(`${mode}allow = ["execute"]\n`, settings);
  assert.equal(report.answer?.trim(), "It is made.", JSON.stringify(report));
  assert.ok(isMade);
  assert.equal(record.state, "done");
  assert.deepEqual(record.decisions.map(({ tool, decision }) => [tool, decision]), [["execute", "allowed"]]);
  const steps = Object.fromEntries(record.steps.filter(({ name }) => name).map(({ name, result }) => [name, JSON.parse(result)]));
  assert.equal(steps["acp.prompt.1"].mode, "read-only");
  assert.match(steps["acp.call.1.1"].title, /touch made/);
});

test("a call that it does not allow is not made, and the failure names it", async () => {
  const { report, record, isMade } = await asked(mode, settings);
  assert.ok(!isMade);
  assert.deepEqual(record.decisions.map(({ tool, decision }) => [tool, decision]), [["execute", "refused"]]);
  assert.match(report, /got no permission for `touch made` \(execute\)/);
});

test("an agent that wants a login fails with its methods", async () => {
  const { report } = await asked("", null);
  assert.match(report, /wants a login.*`openai-api-key`/);
});

// A server of tools on standard input and output, and a model that calls one: both as small as
// their protocols allow, and real enough for the daemon.

import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

// Speaks on standard input and output.
function serveTools() {
  const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
  const answers = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "mail", version: "1" },
    }),
    "tools/list": () => ({ tools: [{ name: "send", description: "Sends a letter.", inputSchema: schema }] }),
    "tools/call": ({ arguments: { text } }) => ({ content: [{ type: "text", text: `sent: ${text}` }] }),
    ping: () => ({}),
  };
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    const answer = answers[method];
    const body = answer ? { result: answer(params) } : { error: { code: -32601, message: method } };
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...body })}\n`);
  });
}

// Calls `send` first; then says what it came back with. With `answer` it streams that, and ends the
// reply when `finish` is called. Nothing is answered before `gates`: one for each request, the last one for
// all later ones.
export async function model(answer, ...gates) {
  let finish;
  const finished = new Promise((done) => { finish = done; });
  const server = createServer(async (request, reply) => {
    let text = "";
    for await (const piece of request) text += piece;
    const { messages } = JSON.parse(text);
    await (gates.length > 1 ? gates.shift() : gates[0]);
    const last = messages.at(-1);
    const call = { index: 0, id: "call_1", type: "function", function: { name: "mail__send", arguments: '{"text":"We <b>move</b> on Friday."}' } };
    const asks = !answer && last.role !== "tool";
    const delta = asks ? { tool_calls: [call] } : { content: answer ?? `Told: ${last.content}` };
    const chunk = (rest) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "gpt-4o", ...rest })}\n\n`;
    reply.writeHead(200, { "Content-Type": "text/event-stream" });
    reply.write(chunk({ choices: [{ index: 0, delta: { role: "assistant", ...delta }, finish_reason: null }] }));
    if (answer) await finished;
    reply.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: asks ? "tool_calls" : "stop" }] }));
    reply.write(chunk({ choices: [], usage: { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 } }));
    reply.end("data: [DONE]\n\n");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  });
  return { address: `http://127.0.0.1:${server.address().port}/v1`, close, finish };
}

// Refuses every request, with a long reason, after `gate`.
export async function refusing(gate) {
  const server = createServer(async (request, reply) => {
    request.resume();
    await gate;
    const message = "The model is not available to this key: ask the owner of the project for access to it. ".repeat(3);
    reply.writeHead(403, { "Content-Type": "application/json" });
    reply.end(JSON.stringify({ error: { message, type: "invalid_request_error", code: "model_not_found" } }));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  });
  return { address: `http://127.0.0.1:${server.address().port}/v1`, close };
}

// Says something and searches the session; then streams the beginning of an answer after the first gate,
// and breaks the connection after the second one.
export async function breaking(said, text, first, second) {
  const call = { index: 0, id: "call_1", type: "function", function: { name: "recall", arguments: '{"query":"move"}' } };
  const server = createServer(async (request, reply) => {
    let body = "";
    for await (const piece of request) body += piece;
    const answers = JSON.parse(body).messages.at(-1).role === "tool";
    const send = (delta, finish_reason = null) => {
      const choices = [{ index: 0, delta: { role: "assistant", ...delta }, finish_reason }];
      reply.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "gpt-4o", choices })}\n\n`);
    };
    if (answers) await first;
    reply.writeHead(200, { "Content-Type": "text/event-stream" });
    if (answers) {
      send({ content: text });
      await second;
      reply.destroy();
    } else {
      send({ content: said, tool_calls: [call] });
      send({}, "tool_calls");
      reply.end("data: [DONE]\n\n");
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  });
  return { address: `http://127.0.0.1:${server.address().port}/v1`, close };
}

// The provider of tests/provider, which streams a text at that pace; 0: at once.
export async function streaming({ tokens, perSecond, text = "word ".repeat(tokens).trim() }) {
  const pieces = Math.max(1, Math.ceil(text.length / tokens));
  const program = process.env.UNISONO_FAKE_PROVIDER ?? resolve(import.meta.dirname, "../../target/debug/fake-provider");
  const options = { text, pieces, output: tokens, "tokens-per-second": perSecond };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  const server = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: server.stdout })) {
    return { address: `${line}/v1`, close: () => server.kill() };
  }
  throw new Error("the provider did not start");
}

// The settings of a provider at that address.
const provider = (address) => `
[models]
default = "openai/gpt-4o"
[providers.openai]
base_url = "${address}"
api_key_env = "TEST_KEY"`;

// The settings of a project with a lead and three delegates.
export function team(address) {
  const agents = ["lead", "north", "east", "west"].map((name) => `[agents.${name}]\ndescription = "works in the ${name}"\n`);
  return `${provider(address)}
[turn]
lead = "lead"
agents = ["north", "east", "west"]
${agents.join("")}`;
}

// The settings of a project whose clerk has those tools, and must ask before it sends. `more` is about the
// provider.
export function settings(address, more = "") {
  const program = JSON.stringify([import.meta.filename, "serve"]);
  return `${provider(address)}
${more}
[turn]
lead = "clerk"
agents = []
[agents.clerk]
description = "writes letters"
mcp_servers = ["mail"]
[mcp.mail]
command = ${JSON.stringify(process.execPath)}
args = ${program}
approve = ["send"]
`;
}

if (process.argv[2] === "serve" && process.argv[1] === import.meta.filename) serveTools();

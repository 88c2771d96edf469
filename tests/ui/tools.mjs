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
// reply when `finish` is called. Nothing is answered before `gate`.
export async function model(answer, gate = Promise.resolve()) {
  let finish;
  const finished = new Promise((done) => { finish = done; });
  const server = createServer(async (request, reply) => {
    let text = "";
    for await (const piece of request) text += piece;
    const { messages } = JSON.parse(text);
    await gate;
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

// The settings of a project whose clerk has those tools, and must ask before it sends.
export function settings(address) {
  const program = JSON.stringify([import.meta.filename, "serve"]);
  return `${provider(address)}
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

// A model that calls the tool `weather` first, then says what it came back with; and the settings
// of a project whose clerk has it. Started by itself, it says its settings and answers until it is
// ended.

import { createServer } from "node:http";

export async function lender() {
  const server = createServer(async (request, reply) => {
    let text = "";
    for await (const piece of request) text += piece;
    const { messages, response_format, tools } = JSON.parse(text);
    const results = messages.filter(({ role }) => role === "tool");
    const call = { index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: '{"place":"Bern"}' } };
    // Where JSON is wanted, it is of the shape that the tests want.
    const told = response_format?.type === "json_schema" ? '{"day":"Friday","hour":9}' : `Told: ${results.at(-1)?.content}`;
    const asks = results.length === 0 && !response_format && tools?.some(({ function: { name } }) => name === "weather");
    const delta = asks ? { tool_calls: [call] } : { content: told };
    const chunk = (rest) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "gpt-4o", ...rest })}\n\n`;
    reply.writeHead(200, { "Content-Type": "text/event-stream" });
    reply.write(chunk({ choices: [{ index: 0, delta: { role: "assistant", ...delta }, finish_reason: null }] }));
    reply.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: asks ? "tool_calls" : "stop" }] }));
    reply.write(chunk({ choices: [], usage: { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 } }));
    reply.end("data: [DONE]\n\n");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const settings = `
[providers.openai]
base_url = "http://127.0.0.1:${server.address().port}/v1"
api_key_env = "TEST_KEY"
[models]
default = "extractive"
[agents.clerk]
description = "knows the weather"
model = "openai/gpt-4o"
`;
  const close = () => new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  });
  return { settings, close };
}

if (process.argv[1] === import.meta.filename) process.stdout.write(`${(await lender()).settings}\n---\n`);

// OpenAI's JavaScript client, unchanged, against the daemon.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText } from "ai";
import OpenAI from "openai";
import { z } from "zod";
import { Place } from "../ui/place.mjs";
import { lender } from "./model.mjs";

let place;
let client;
let answers;
const talk = [
  { role: "system", content: "You help a small shop." },
  { role: "user", content: "We decided to move the orders database on Friday 6 March." },
  { role: "assistant", content: "Noted: the orders database moves on Friday 6 March." },
  { role: "user", content: "When does the orders database move?" },
];

before(async () => {
  answers = await lender();
  place = await new Place(answers.settings).serve();
  client = new OpenAI({ baseURL: `${place.address}/openai/v1`, apiKey: place.token, maxRetries: 0 });
});

after(async () => {
  await place?.stop();
  await answers?.close();
});

test("models are agents and the team", async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.ok(names.includes("team") && names.includes("facts"), names.join());
});

test("a completion, whole and streamed", async () => {
  const asked = { model: "facts", messages: talk };
  const whole = await client.chat.completions.create(asked);
  const text = whole.choices[0].message.content;
  assert.match(text, /6 March/);
  const stream = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
  assert.equal(await stream.finalContent(), text);
  assert.deepEqual(await stream.totalUsage(), await client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } }).totalUsage());
});

test("a response, whole and streamed", async () => {
  const asked = { model: "facts", input: talk };
  const whole = await client.responses.create(asked);
  assert.match(whole.output_text, /6 March/);
  let said = "";
  const types = [];
  for await (const event of await client.responses.create({ ...asked, stream: true })) {
    types.push(event.type);
    if (event.type === "response.output_text.delta") said += event.delta;
  }
  assert.equal(said, whole.output_text);
  assert.equal(types[0], "response.created");
  assert.equal(types.at(-1), "response.completed");
});

const parameters = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const weather = { name: "weather", description: "The weather somewhere.", parameters };

test("an agent calls tools of the client's: the runner makes the calls", async () => {
  const asked = [];
  const runner = client.chat.completions.runTools({
    model: "clerk",
    messages: [{ role: "user", content: "How warm is it in Bern?" }],
    tools: [{ type: "function", function: { ...weather, parse: JSON.parse, function: (args) => (asked.push(args.place), "12 degrees") } }],
  });
  assert.equal(await runner.finalContent(), "Told: #3 12 degrees");
  assert.deepEqual(asked, ["Bern"]);
});

test("a streamed call, and its result in the next request", async () => {
  const messages = [{ role: "user", content: "How warm is it in Bern?" }];
  const tools = [{ type: "function", function: weather }];
  const ask = { model: "clerk", messages, tools, tool_choice: "required" };
  const stream = client.chat.completions.stream(ask);
  const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0];
  assert.equal(finish_reason, "tool_calls");
  assert.equal(message.tool_calls[0].function.name, "weather");
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { place: "Bern" });
  messages.push(message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "12 degrees" });
  const told = await client.chat.completions.stream({ ...ask, tool_choice: "auto" }).finalContent();
  assert.equal(told, "Told: #3 12 degrees");
});

test("a response calls a function, whole and streamed", async () => {
  const ask = { model: "clerk", input: "How warm is it in Bern?", tools: [{ type: "function", strict: false, ...weather }] };
  const whole = await client.responses.create(ask);
  const streamed = await client.responses.stream(ask).finalResponse();
  for (const { output } of [whole, streamed]) {
    assert.deepEqual(output.map((item) => item.type), ["function_call"]);
    const input = [{ role: "user", content: ask.input }, ...output, { type: "function_call_output", call_id: output[0].call_id, output: "12 degrees" }];
    const told = await client.responses.create({ ...ask, input });
    assert.equal(told.output_text, "Told: #3 12 degrees");
  }
});

test("the AI SDK has an agent answer with an object of its own schema", async () => {
  const provider = createOpenAI({ baseURL: client.baseURL, apiKey: place.token });
  const schema = z.object({ day: z.string().describe("The day's name"), hour: z.number().int() });
  for (const model of [provider.chat("clerk"), provider.responses("clerk")]) {
    const { object } = await generateObject({ model, schema, prompt: "When is it?", maxRetries: 0 });
    assert.deepEqual(object, { day: "Friday", hour: 9 });
  }
  const { text } = await generateText({ model: provider.chat("clerk"), prompt: "So?", maxOutputTokens: 50, stopSequences: ["undef"], maxRetries: 0 });
  assert.equal(text, "Told: ");
});

test("the team takes no tools", async () => {
  const ask = { model: "team", messages: talk, tools: [{ type: "function", function: weather }] };
  await assert.rejects(client.chat.completions.create(ask), (error) => error instanceof OpenAI.BadRequestError && error.param === "tools");
});

test("what is refused is an error of its kind", async () => {
  await assert.rejects(client.chat.completions.create({ model: "nobody", messages: talk }), OpenAI.NotFoundError);
  const stranger = new OpenAI({ baseURL: client.baseURL, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

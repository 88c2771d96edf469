// OpenAI's JavaScript client, unchanged, against the daemon.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { Place } from "../ui/place.mjs";

let place;
let client;
const talk = [
  { role: "system", content: "You help a small shop." },
  { role: "user", content: "We decided to move the orders database on Friday 6 March." },
  { role: "assistant", content: "Noted: the orders database moves on Friday 6 March." },
  { role: "user", content: "When does the orders database move?" },
];

before(async () => {
  place = await new Place().serve();
  client = new OpenAI({ baseURL: `${place.address}/openai/v1`, apiKey: place.token, maxRetries: 0 });
});

after(() => place?.stop());

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

test("what is refused is an error of its kind", async () => {
  await assert.rejects(client.chat.completions.create({ model: "nobody", messages: talk }), OpenAI.NotFoundError);
  const stranger = new OpenAI({ baseURL: client.baseURL, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

// AI SDK's `useChat`, unchanged but for React around it, against the daemon.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { Place } from "../ui/place.mjs";
import { model, settings } from "../ui/tools.mjs";

let place;

before(async () => {
  place = await new Place('[models]\ndefault = "extractive"\n').serve();
});

after(async () => place?.stop());

const said = [{ role: "user", content: "We decided to move the orders database on Friday 6 March." }];

// A session, and a chat of it as a page has it.
async function chatOf(at, options = {}) {
  const made = await at.ask("POST", "/v1/sessions", { title: "Orders", messages: said });
  const api = `${at.address}/v1/sessions/${made.session}/chat`;
  const headers = { Authorization: `Bearer ${at.token}` };
  const { body, messages, ...rest } = options;
  const transport = new DefaultChatTransport({ api, headers, body });
  const chat = new Chat({ id: "a-chat", messages, transport, ...rest });
  return { chat, session: made.session, transport };
}

const textOf = (message) => message.parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");
const ofKind = (message, kind) => message.parts.filter(({ type }) => type === kind);

async function history(at, session, branch = "main") {
  const page = await at.ask("GET", `/v1/sessions/${session}/messages?branch=${branch}&limit=50`);
  return page.items.map(({ role }) => role).filter((role) => role !== "tool");
}

test("a chat goes on in its session, with each agent and the frozen context beside the answer", async () => {
  const { chat, session } = await chatOf(place, { body: { lead: "lead", agents: ["facts", "risks"] } });
  await chat.sendMessage({ text: "When does the orders database move?" });
  assert.equal(chat.error, undefined);
  const [, answer] = chat.messages;
  assert.match(textOf(answer), /6 March/);
  const agents = ofKind(answer, "data-agent").map(({ data }) => [data.agent, data.state]);
  assert.deepEqual(agents.sort(), [["facts", "done"], ["lead", "done"], ["risks", "done"]]);
  const [context] = ofKind(answer, "data-context");
  assert.equal(context.data.agents, 3);
  assert.equal(answer.metadata.turn, answer.id);
  assert.ok(answer.metadata.usage.input_tokens > 0);
  const turn = await place.ask("GET", `/v1/sessions/${session}/turns/${answer.id}`);
  assert.equal(turn.answer, textOf(answer));
  await chat.sendMessage({ text: "When do we move the orders?" });
  assert.match(textOf(chat.messages[3]), /Friday/);
  // The delegates' results are calls of the lead.
  assert.deepEqual((await history(place, session)).filter((role) => role === "user").length, 3);
});

test("a message that is sent again has its turn; an answer given anew, or an edited question, a branch", async () => {
  const { chat, session, transport } = await chatOf(place, { body: { lead: "facts", agents: [] } });
  await chat.sendMessage({ text: "When does it move?" });
  await chat.sendMessage({ text: "What moves?" });
  const [, first, asked, second] = chat.messages;
  const again = await transport.sendMessages({ chatId: "a-chat", messages: chat.messages.slice(0, 3), trigger: "submit-message" });
  let start;
  for await (const part of again) start ??= part;
  assert.equal(start.messageId, second.id);
  assert.equal((await history(place, session)).length, 5);

  await chat.regenerate();
  assert.equal(chat.messages.length, 4);
  let third = chat.messages[3];
  assert.notEqual(third.id, second.id);
  assert.match(third.metadata.branch, /^chat-/);
  for (const messageId of [undefined, undefined, "named"]) {
    await chat.regenerate(messageId && { messageId: third.id });
    assert.notEqual(chat.messages[3].id, third.id, "as often as is asked");
    third = chat.messages[3];
  }
  await chat.sendMessage({ text: "Is that sure?" });
  assert.equal(chat.messages[5].metadata.branch, third.metadata.branch);
  const roles = ["user", "user", "assistant", "user", "assistant"];
  assert.deepEqual(await history(place, session), roles, "what was answered before stays");
  assert.equal((await history(place, session, third.metadata.branch)).length, 7);

  await chat.sendMessage({ text: "Which database?", messageId: asked.id });
  assert.equal(chat.messages.length, 4);
  assert.equal(chat.messages[1].id, first.id);
  assert.deepEqual(await history(place, session, chat.messages[3].metadata.branch), roles);
});

test("a greeting that the page shows is no answer", async () => {
  const greeting = { id: "greeting", role: "assistant", parts: [{ type: "text", text: "Ask me anything." }] };
  const { chat } = await chatOf(place, { body: { lead: "facts", agents: [] }, messages: [greeting] });
  await chat.sendMessage({ text: "When does the orders database move?" });
  assert.equal(chat.error, undefined);
  assert.match(textOf(chat.messages[2]), /6 March/);
});

test("a task of another client keeps its author when its answer is given anew", async () => {
  const { chat, session } = await chatOf(place, { body: { lead: "facts", agents: [] } });
  const ask = (task) => place.ask("POST", `/v1/sessions/${session}/turns`, { lead: "facts", agents: [], ...task });
  const first = await ask({ task: "When does it move?" });
  const second = await ask({ task: "What moves?", author: "Ben" });
  const says = (id, role, text) => ({ id, role, parts: [{ type: "text", text }] });
  chat.messages = [
    says("m1", "user", "When does it move?"),
    says(first.turn, "assistant", first.answer),
    says("m2", "user", "What moves?"),
    says(second.turn, "assistant", second.answer),
  ];
  await chat.regenerate();
  assert.equal(chat.error, undefined);
  const { branch } = chat.messages[3].metadata;
  const page = await place.ask("GET", `/v1/sessions/${session}/messages?branch=${branch}&limit=50`);
  assert.equal(page.items.findLast(({ role }) => role === "user").author, "Ben");
});

test("a call that waits is approved or denied in the chat", async () => {
  const answers = await model();
  const asking = await new Place(settings(answers.address)).serve();
  try {
    const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses;
    for (const approved of [true, false]) {
      let finish;
      let onError;
      const ended = new Promise((resolve, reject) => { finish = resolve; onError = reject; });
      const onFinish = ({ message, finishReason }) => finishReason === "stop" && finish(message);
      const { chat } = await chatOf(asking, { sendAutomaticallyWhen, onFinish, onError });
      await chat.sendMessage({ text: "Tell the landlord." });
      const [call] = ofKind(chat.messages[1], "dynamic-tool");
      assert.deepEqual([call.toolName, call.state], ["mail__send", "approval-requested"]);
      assert.deepEqual(call.input, { text: "We <b>move</b> on Friday." });
      await chat.addToolApprovalResponse({ id: call.approval.id, approved, reason: "The landlord knows." });
      const answer = await ended;
      const expected = approved ? /Told: sent: We <b>move/ : /They said: The landlord knows/;
      assert.match(textOf(answer), expected);
      const [done] = ofKind(answer, "dynamic-tool");
      assert.equal(done.state, approved ? "output-available" : "output-denied");
    }
  } finally {
    await asking.stop();
    await answers.close();
  }
});

test("an answer that was left comes again; where no turn is open nothing does", async () => {
  const answers = await model("The word is unison.");
  const config = settings(answers.address).replace("[turn]", "[agents.idle]\ndescription = \"idle\"\n[turn]");
  const slow = await new Place(config).serve();
  try {
    const { session, transport } = await chatOf(slow);
    assert.equal(await transport.reconnectToStream({ chatId: "a-chat" }), null);
    const leave = new AbortController();
    const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "Which word?" }] }];
    const stream = await transport.sendMessages({ chatId: "a-chat", messages, trigger: "submit-message", abortSignal: leave.signal });
    const reader = stream.getReader();
    let turn;
    for (;;) {
      const { value } = await reader.read();
      if (value.type === "start") turn = value.messageId;
      if (value.type === "text-delta") break;
    }
    leave.abort();
    const again = (await transport.reconnectToStream({ chatId: "a-chat" })).getReader();
    assert.equal((await again.read()).value.messageId, turn);
    answers.finish();
    let text = "";
    for (let part = await again.read(); !part.done; part = await again.read()) {
      if (part.value.type === "text-delta") text += part.value.delta;
    }
    assert.equal(text, "The word is unison.");
    assert.equal((await slow.ask("GET", `/v1/sessions/${session}/turns/${turn}`)).state, "answered");
  } finally {
    await slow.stop();
    await answers.close();
  }
});

test("what cannot be answered is an error of the chat", async () => {
  const rows = [
    [{ lead: "nobody" }, /nobody/],
    [{ settings: { "compaction.presett": "off" } }, /presett/],
  ];
  for (const [body, reason] of rows) {
    const { chat } = await chatOf(place, { body });
    await chat.sendMessage({ text: "Well?" });
    assert.match(chat.error?.message ?? "", reason);
  }
  const { chat } = await chatOf(place);
  const file = { type: "file", mediaType: "image/png", url: "data:image/png;base64,AAAA" };
  await chat.sendMessage({ text: "See?", files: [file] });
  assert.match(chat.error.message, /is not supported/);
});

// How much a page receives and how far it moves while models stream, and how large pages are whose
// texts are long.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { browser as launch, enter, received, shifting, shot } from "./browser.mjs";
import { Place, withDaemon } from "./place.mjs";
import { model, settings, streaming, team } from "./tools.mjs";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

test("while three agents stream, a page receives little and nothing moves", async () => {
  const provider = await streaming({ tokens: 500, perSecond: 250 });
  const place = await new Place(team(provider.address)).serve();
  try {
    const messages = Array.from({ length: 40 }, (_, at) => ({ role: at % 2 ? "assistant" : "user", content: `${at}: The move is on Friday.` }));
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Stream", messages });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    for (const task of ["When is the move?", "And who moves?"]) {
      const answered = await page.locator(".turn > header .state.answered").count();
      const bytes = await received(page);
      const shift = await shifting(page);
      const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task, wait: false });
      const card = page.locator(`#turn-${turn}`);
      // All three are read while they are written.
      await page.waitForFunction((turn) => [...document.querySelectorAll(`#turn-${turn} .output [data-run]`)].filter((one) => one.textContent.length > 100).length === 3, turn);
      await shot(page, "three-stream");
      await page.waitForFunction((count) => document.querySelectorAll(".turn > header .state.answered").length > count, answered);
      await card.locator("details.run[open]").nth(2).waitFor();
      await page.waitForLoadState("networkidle").catch(() => {});
      // Nothing of what was said is lost.
      const { runs } = await place.ask("GET", `/v1/sessions/${session}/turns/${turn}`);
      assert.equal(runs.length, 4);
      for (const { text, agent } of runs.filter((run) => run.role !== "lead")) {
        const shown = await card.getByRole("group", { name: `Output of ${agent}` }).textContent();
        assert.equal(shown.replace(/\s+/g, " ").trim(), text.replace(/\s+/g, " ").trim());
      }
      assert.ok(bytes() > 5_000 && bytes() <= 100 * 1024, `${bytes()} bytes`);
      assert.ok((await shift()) <= 0.02, `a shift of ${await shift()}`);
      console.log(`# ${bytes()} bytes, a shift of ${(await shift()).toFixed(4)}`);
    }
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
    await provider.close();
  }
});

test("a page that was behind says so, and is up to date", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Slow", messages: [{ role: "user", content: "First." }] });
    const page = await enter(browser, place);
    const body = "retry: 600000\nevent: missed\ndata: {}\n\n";
    await page.route("**/events?*", async (route) => {
      await place.ask("POST", `/v1/sessions/${session}/messages`, { text: "Second." });
      await route.fulfill({ contentType: "text/event-stream", body });
    });
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator("#link").getByText("this page was behind, and was refreshed").waitFor();
    await page.locator(".message").getByText("Second.").waitFor();
  });
});

test("a summary that is written ahead after a turn brings the page up to date", async () => {
  await withDaemon(new Place(), async (place) => {
    for (const name of ["preparation_planned", "summariser_used", "summary_prepared", "preparation_dropped"]) {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Ahead", messages: [{ role: "user", content: "First." }] });
      const page = await enter(browser, place);
      const body = `retry: 600000\nid: 9\nevent: ${name}\ndata: {}\n\n`;
      await page.route("**/events?*", async (route) => {
        await place.ask("POST", `/v1/sessions/${session}/messages`, { text: "Second." });
        await route.fulfill({ contentType: "text/event-stream", body });
      });
      await page.goto(`${place.address}/sessions/${session}`);
      await page.locator(".message").getByText("Second.").waitFor();
      await page.context().close();
    }
  });
});

test("what comes after a gap is not put behind what was said before it", async () => {
  // The model never answers: what is said comes from here.
  const silent = await model("Nothing.", new Promise(() => {}));
  const place = await new Place(settings(silent.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Gap", messages: [{ role: "user", content: "First." }] });
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is the move?", wait: false });
    let run;
    for (let tries = 0; !run && tries < 1_000; tries++) {
      run = (await place.ask("GET", `/v1/sessions/${session}/turns/${turn}`)).runs[0]?.run;
    }
    const event = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
    for (const [after, shown] of [
      [event("text_so_far", { run, text: "The move is on " }) + event("text_delta", { run, text: "Friday." }), /^The move is on Friday\./],
      [event("text_delta", { run, text: "I look again." }), /^I look again\./],
    ]) {
      const page = await enter(browser, place);
      const body = `retry: 600000\n${event("text_delta", { run, text: "The move " })}${event("missed", {})}${after}`;
      await page.route("**/events?*", (route) => route.fulfill({ contentType: "text/event-stream", body }));
      await page.goto(`${place.address}/sessions/${session}`);
      await page.locator(".under-way [data-run]", { hasText: shown }).waitFor();
      await page.context().close();
    }
  } finally {
    await place.stop();
    await silent.close();
  }
});

// Words that hardly compress, each of its own.
function words(bytes, seed) {
  let state = seed;
  const next = () => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) / 2 ** 32;
  let text = "";
  while (text.length < bytes) {
    const length = 3 + Math.floor(next() * 7);
    for (let at = 0; at < length; at++) text += String.fromCharCode(97 + Math.floor(next() * 26));
    text += next() < 0.1 ? ".\n" : " ";
  }
  return text;
}

// The bytes of a page as they are sent, and its text.
async function page(place, path) {
  const { hostname, port } = new URL(place.address);
  const { request } = await import("node:http");
  const headers = { Authorization: `Bearer ${place.token}`, Accept: "text/html", "Accept-Encoding": "gzip" };
  const reply = await new Promise((done, failed) => request({ hostname, port, path, headers }, done).on("error", failed).end());
  assert.equal(reply.statusCode, 200, path);
  const pieces = [];
  for await (const piece of reply) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  return { bytes: bytes.length, text: (reply.headers["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes).toString() };
}

test("every page of a session is small, however long its texts are", async () => {
  for (const [count, size] of [[30, 20_000], [60, 4_000], [200, 900], [3, 300_000]]) {
    const provider = await streaming({ text: words(Math.min(size, 100_000), 7), tokens: 500, perSecond: 0 });
    const place = await new Place(team(provider.address)).serve();
    try {
      const messages = Array.from({ length: count }, (_, at) => ({ role: at % 2 ? "assistant" : "user", content: `${words(size, at + 1)} end of ${at + 1}` }));
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Long", messages });
      const task = words(Math.min(size, 20_000), 99);
      const first = await place.ask("POST", `/v1/sessions/${session}/turns`, { task, wait: true });
      const { turn, runs, snapshot } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task, wait: true });
      assert.ok(first.snapshot && snapshot);
      const at = `/sessions/${session}`;
      const paths = ["", "/history", "/history?from=1", "/context", "/context?from=1", "/tree", "/turns", `/turns/${turn}`, `/snapshots/${snapshot}`, "/checkpoints", "/settings", ...runs.map(({ run }) => `/runs/${run}`)];
      const { items } = await place.ask("GET", `/v1${at}/checkpoints`);
      for (const { number } of items) paths.push(`/checkpoints/${number}/compare`);
      for (const path of paths) {
        const { bytes, text } = await page(place, at + path);
        assert.ok(bytes <= 60 * 1024, `${count} of ${size}: ${path} has ${bytes} bytes, of ${text.length}`);
      }
      // A text that does not fit begins, and leads to all of it.
      const { text } = await page(place, `${at}/history?from=1`);
      if (size > 1_000) {
        assert.match(text, /messages\/1\?branch=main">the whole text/);
        assert.ok(!text.includes("end of 1"));
      }
      let [whole, next] = ["", `${at}/messages/1?branch=main`];
      while (next) {
        const { bytes, text } = await page(place, next);
        assert.ok(bytes <= 60 * 1024, `${next} has ${bytes} bytes`);
        whole += text.match(/<pre>\n([^<]*)<\/pre>/)[1];
        next = text.match(/href="([^"]*)">Next part/)?.[1].replaceAll("&amp;", "&");
      }
      assert.equal(whole, messages[0].content);
    } finally {
      await place.stop();
      await provider.close();
    }
  }
});

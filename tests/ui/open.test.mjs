// A page that is open while other people, the daemon or the machine change.

import assert from "node:assert/strict";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser as launch, enter, shot } from "./browser.mjs";
import { Place, withDaemon } from "./place.mjs";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

const said = (count) => Array.from({ length: count }, (_, at) => ({
  role: at % 2 ? "assistant" : "user", content: `The move is on Friday, part ${at + 1}. `.repeat(20),
}));

async function began(title, count = 2, config = "") {
  const place = await new Place(config).serve();
  const { session } = await place.ask("POST", "/v1/sessions", { title, messages: said(count) });
  return { place, session };
}

const add = (place, session, text) => place.ask("POST", `/v1/sessions/${session}/messages`, { text });

test("of two people who edit one summary the second one is told, and keeps the text", async () => {
  const { place, session } = await began("Two", 12);
  try {
    await place.ask("POST", `/v1/sessions/${session}/compactions`, { keep_messages: 2 });
    const [first, second] = [await enter(browser, place), await enter(browser, place)];
    for (const page of [first, second]) {
      await page.goto(`${place.address}/sessions/${session}/checkpoints/1`);
      await page.getByText("Edit", { exact: true }).click();
    }
    await second.getByLabel("The text in its place").fill("The second one: <b>Saturday</b>.");
    await first.getByLabel("The text in its place").fill("The first one: Friday.");
    await first.getByRole("button", { name: "Save" }).click();
    await first.locator(".turn .state").first().waitFor();
    // The page of the other one is brought up to date, and what is being written there stays.
    await second.getByText("not in the context").first().waitFor();
    await second.getByRole("button", { name: "Save" }).click();
    await second.getByRole("heading", { name: "Checkpoint 1 was changed meanwhile" }).waitFor();
    await second.getByText("The first one: Friday.").first().waitFor();
    const kept = second.getByLabel("Your text, which was not saved");
    assert.equal(await kept.inputValue(), "The second one: <b>Saturday</b>.");
    await shot(second, "overtaken");
    const texts = async () => (await place.ask("GET", `/v1/sessions/${session}/checkpoints`)).items.filter(({ active }) => active).map(({ text }) => text);
    assert.deepEqual(await texts(), ["The first one: Friday."]);
    // Whoever has seen the other text may save over it.
    await second.getByRole("button", { name: "Save it in place of checkpoint 2" }).click();
    await second.locator(".turn .state").first().waitFor();
    await second.waitForFunction(() => !document.querySelector(".turn .state.working, .turn .state.running"));
    assert.deepEqual(await texts(), ["The second one: <b>Saturday</b>."]);
    for (const page of [first, second]) await page.context().close();
  } finally {
    await place.stop();
  }
});

test("who is revoked in the middle of a stream is told so, and comes back by a new link", async () => {
  const { place, session } = await began("Revoked");
  try {
    const { secret } = await place.ask("POST", "/v1/tokens", { name: "ada", scope: "ask" });
    place.bearer = secret;
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    // A page of something else asks how many calls wait, when it becomes visible.
    const idle = await page.context().newPage();
    await idle.goto(`${place.address}/agents`);
    const counts = async () => {
      const answered = idle.waitForResponse(/\/approvals\/count$/);
      await idle.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
      return (await answered).status();
    };
    assert.equal(await counts(), 200);
    place.bearer = undefined;
    await add(place, session, "Before.");
    await page.locator(".message").getByText("Before.").waitFor();
    await place.ask("DELETE", "/v1/tokens/ada");
    await page.locator("#link").getByText("signed out: come in by a new link").waitFor();
    assert.equal(await counts(), 401);
    await add(place, session, "After.");
    await shot(page, "revoked");
    // A link in another tab of the browser is enough.
    const { url } = await place.ask("POST", "/v1/login-links");
    const other = await page.context().newPage();
    await other.goto(url);
    await page.locator(".message").getByText("After.").waitFor();
    await page.waitForFunction(() => document.getElementById("link").textContent === "");
    assert.equal(await counts(), 200);
  } finally {
    await place.stop();
  }
});

test("a page that the daemon refuses once, or that is lost on the way, is asked for again", async () => {
  const { place, session } = await began("Busy");
  try {
    const page = await enter(browser, place);
    const home = `${place.address}/sessions/${session}`;
    // It is given up soon.
    await page.addInitScript(() => {
      const timeout = AbortSignal.timeout.bind(AbortSignal);
      AbortSignal.timeout = () => timeout(5_000);
    });
    await page.goto(home);
    await page.waitForFunction(() => document.readyState === "complete");
    const faults = [
      ["A busy one.", (route) => route.fulfill({ status: 503, body: "busy" })],
      ["A lost one.", (route) => route.abort()],
      ["One that never comes.", () => {}],
    ];
    for (const [text, fails] of faults) {
      await page.route(home, fails, { times: 1 });
      await add(place, session, text);
      // No other event follows.
      await page.locator(".message").getByText(text).waitFor();
    }
  } finally {
    await place.stop();
  }
});

test("a long message that is read stays open when others follow", async () => {
  await withDaemon(new Place(), async (place) => {
    const messages = [{ role: "user", content: "When?" }, { role: "assistant", content: "The move is on Friday. ".repeat(120) }];
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Reading", messages });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator("#m2 > .md").waitFor();
    for (const text of ["One.", "Two.", "Three."]) {
      await add(place, session, text);
      await page.locator(".message").getByText(text).waitFor();
      assert.ok(await page.locator("#m2 .md").isVisible(), text);
    }
    await page.locator("#m2 > .fold[open]").waitFor();
    // A person folds it.
    await page.locator("#m2 > .fold > summary").click();
    await add(place, session, "Four.");
    await page.locator(".message").getByText("Four.").waitFor();
    assert.equal(await page.locator("#m2 > .fold").evaluate((fold) => fold.open), false);
  });
});

test("what the search of the browser opens stays open when others follow", async () => {
  await withDaemon(new Place(), async (place) => {
    const messages = [{ role: "user", content: "The move is on Friday. ".repeat(120) }, ...said(4)];
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Found", messages });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const fold = page.locator("#m1 > .fold");
    await fold.evaluate((one) => new Promise((done) => {
      one.addEventListener("toggle", done, { once: true });
      one.open = true;
    }));
    await add(place, session, "One more.");
    await page.locator(".message").getByText("One more.").waitFor();
    assert.equal(await fold.evaluate((one) => one.open), true);
  });
});

test("in the list of sessions the focus stays on its session when others change", async () => {
  await withDaemon(new Place(), async (place) => {
    const ids = {};
    for (const title of ["First", "Second"]) ids[title] = (await place.ask("POST", "/v1/sessions", { title, messages: said(2) })).session;
    const page = await enter(browser, place);
    await page.getByRole("link", { name: "Second", exact: true }).focus();
    // The other one comes before it, and it comes before the other one.
    for (const title of ["First", "Second"]) {
      await add(place, ids[title], "One more.");
      await page.waitForFunction((title) => document.querySelector("main td a.title").textContent === title, title);
      assert.equal(await page.evaluate(() => document.activeElement.textContent), "Second");
    }
  });
});

test("on paper all of a conversation is in sight, also its long messages and without scripts", async () => {
  await withDaemon(new Place(), async (place) => {
    const call = { id: "call_1", type: "function", function: { name: "calendar", arguments: "{}" } };
    const messages = [
      { role: "user", content: "The move is on Friday. ".repeat(120) },
      { role: "assistant", tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: `${"Free. ".repeat(40)}Friday: the move.` },
      ...said(20),
    ];
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Paper", messages });
    for (const [width, javaScriptEnabled] of [[1280, true], [700, true], [700, false]]) {
      const page = await enter(browser, place, { viewport: { width, height: 800 }, javaScriptEnabled });
      await page.emulateMedia({ media: "print" });
      await page.goto(`${place.address}/sessions/${session}`);
      await page.locator("#m1 .md").waitFor();
      assert.equal(await page.locator("#m1 .preview").isVisible(), false);
      await page.locator("#m3 pre", { hasText: "Friday: the move." }).waitFor();
      const [seen, whole] = await page.locator(".scroller").evaluate((pane) => [pane.clientHeight, pane.scrollHeight]);
      assert.ok(whole > 800 && seen >= whole - 1, `${seen} of ${whole}`);
      assert.equal(await page.getByLabel("Task", { exact: true }).isVisible(), false);
    }
  });
});

test("a message that has left the context says so also where the daemon does not render it any more", async () => {
  const { place, session } = await began("Marks", 40);
  try {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator("#m11").waitFor({ state: "attached" });
    await add(place, session, "One more.");
    await page.locator(".message").getByText("One more.").waitFor();
    assert.equal(await page.locator("#m11.gone").count(), 0);
    await place.ask("POST", `/v1/sessions/${session}/compactions`, { keep_messages: 2 });
    await page.locator("#m11.gone").getByText("summarised, not in the context").waitFor();
    await page.locator("#m12.gone").waitFor();
    await place.ask("POST", `/v1/sessions/${session}/checkpoints/1/revert`, {});
    await page.locator("#m11:not(.gone)").waitFor();
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
  }
});

test("how long a run has gone on does not depend on the clock of the browser", async () => {
  const slow = '[agents.slow]\ndescription = "Waits"\nkind = "command"\ncommand = "sleep"\nargs = ["60"]\n';
  const { place, session } = await began("Clocks", 2, slow);
  try {
    const turns = `/v1/sessions/${session}/turns`;
    const { turn } = await place.ask("POST", turns, { task: "Wait.", agents: ["slow"], wait: false });
    const page = await enter(browser, place);
    await page.addInitScript(() => {
      const now = Date.now.bind(Date);
      Date.now = () => now() + 3_600_000;
    });
    await page.goto(`${place.address}/sessions/${session}`);
    const shown = await page.waitForFunction(() => Number.parseInt(document.querySelector("[data-since]")?.textContent, 10) || null);
    assert.ok(await shown.jsonValue() < 600);
    await place.ask("POST", `${turns}/${turn}/cancel`, {});
  } finally {
    await place.stop();
  }
});

test("a link that was used, and one that never was one, let nobody in, and a token does", async () => {
  await withDaemon(new Place(), async (place) => {
    const context = await browser.newContext();
    const page = await context.newPage();
    for (const url of [place.link.replace(/code=.*/, "code=none"), place.link.replace(/\?.*/, "")]) {
      const reply = await page.goto(url);
      assert.ok([400, 401].includes(reply.status()), String(reply.status()));
    }
    assert.equal((await page.goto(place.link)).status(), 200);
    const again = await browser.newPage();
    const reply = await again.goto(place.link);
    assert.equal(reply.status(), 401);
    await again.getByText("is older than an hour").waitFor();
    // A token lets this browser in, too.
    await again.getByLabel("Login link or token").fill(place.token);
    await shot(again, "login");
    await again.getByRole("button", { name: "Log in" }).click();
    await again.getByRole("heading", { name: "Sessions" }).waitFor();
    await again.close();
    await context.close();
  });
});

test("a browser that slept goes on where it was, and a tab that nobody sees has no stream", async () => {
  const { place, session } = await began("Asleep");
  try {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator("#link").waitFor({ state: "attached" });
    const opened = [];
    page.on("request", (request) => { if (request.url().includes("/events?")) opened.push(request.url()); });
    const see = (state) => page.evaluate((state) => {
      Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
    await see("hidden");
    await add(place, session, "While nobody looked.");
    assert.deepEqual(opened, []);
    await see("visible");
    await page.locator(".message").getByText("While nobody looked.").waitFor();
    assert.equal(opened.length, 1);
    // The machine sleeps: connections are gone when it wakes up.
    await page.context().setOffline(true);
    await page.evaluate(() => dispatchEvent(new Event("offline")));
    await add(place, session, "While the machine slept.");
    await place.halt();
    await place.serve();
    await page.context().setOffline(false);
    await page.locator(".message").getByText("While the machine slept.").waitFor();
    await page.waitForFunction(() => document.getElementById("link").textContent === "");
  } finally {
    await place.stop();
  }
});

test("many windows of one browser follow a session, and one more gets a stream when another is closed", async () => {
  const { place, session } = await began("Windows");
  try {
    const first = await enter(browser, place);
    const pages = [first];
    while (pages.length < 8) pages.push(await first.context().newPage());
    let streams = 0;
    for (const page of pages) {
      page.on("request", (request) => { streams += request.url().includes("/events?"); });
      await page.goto(`${place.address}/sessions/${session}`);
    }
    await add(place, session, "It is on Tuesday.");
    for (const page of pages) await page.getByText("It is on Tuesday.").first().waitFor();
    assert.equal(streams, 4);
    const next = pages.at(-1).waitForRequest((request) => request.url().includes("/events?"));
    for (const page of pages.slice(0, -1)) await page.close();
    await next;
    await add(place, session, "It is on Thursday.");
    await pages.at(-1).getByText("It is on Thursday.").first().waitFor();
    await first.context().close();
  } finally {
    await place.stop();
  }
});

test("a page whose last event is gone from the store is brought up to date and followed again", async () => {
  const { place, session } = await began("Restored");
  const store = join(place.path, "data/unisono");
  const copy = join(place.path, "copy");
  try {
    const page = await enter(browser, place);
    await place.halt();
    cpSync(store, copy, { recursive: true });
    await place.serve();
    await page.goto(`${place.address}/sessions/${session}`);
    await add(place, session, "This will be lost.");
    await page.locator(".message").getByText("This will be lost.").waitFor();
    // The daemon comes back with the store of yesterday.
    await place.halt();
    rmSync(store, { recursive: true });
    cpSync(copy, store, { recursive: true });
    await place.serve();
    await page.waitForFunction(() => document.getElementById("link").textContent === "" && !document.body.textContent.includes("This will be lost."));
    await add(place, session, "Said again.");
    await page.locator(".message").getByText("Said again.").waitFor();
  } finally {
    await place.stop();
  }
});

test("a page of a daemon that was upgraded loads anew, unless that would lose what was written", async () => {
  const { place, session } = await began("Upgraded");
  try {
    const page = await enter(browser, place);
    let version;
    // What the daemon renders has the addresses of another version.
    await page.route(`**/sessions/${session}`, async (route) => {
      const reply = await route.fetch();
      const text = await reply.text();
      const body = version ? text.replaceAll(/\/static\/[0-9a-f]+\//g, `/static/${version}/`) : text;
      await route.fulfill({ response: reply, body });
    });
    const style = () => page.locator('link[rel="stylesheet"]').getAttribute("href");
    await page.goto(`${place.address}/sessions/${session}`);
    const before = await style();
    // Parts of the page under the address of another version are there, and are not kept for good.
    const old = await fetch(`${place.address}/static/0123456789abcdef/live.js`);
    assert.equal(old.status, 200);
    assert.equal(old.headers.get("cache-control"), "no-cache");
    await page.getByLabel("Task").fill("Not sent yet");
    version = "0123456789abcdef";
    await add(place, session, "From the new version.");
    await page.locator("#link").getByText("the daemon has a new version").waitFor();
    assert.equal(await style(), before);
    assert.equal(await page.getByLabel("Task").inputValue(), "Not sent yet");
    await shot(page, "upgraded");
    await page.getByLabel("Task").fill("");
    await add(place, session, "Once more.");
    await page.locator(".message").getByText("Once more.").waitFor();
    assert.match(await style(), /0123456789abcdef/);
    // It loads once for a version, and follows as before.
    await add(place, session, "And on.");
    await page.locator(".message").getByText("And on.").waitFor();
  } finally {
    await place.stop();
  }
});

test("a link to a message that the conversation does not show any more leads to the history", async () => {
  const { place, session } = await began("Link", 60);
  try {
    const page = await enter(browser, place);
    const home = `${place.address}/sessions/${session}`;
    await page.goto(`${home}#m9`, { waitUntil: "commit" });
    await page.waitForURL(/\/history\?branch=main&from=6#m9$/);
    await page.locator("#m9").waitFor();
    for (const other of ["#m60", "#50%"]) {
      await page.goto(home + other);
      await page.locator("#m60").waitFor();
    }
    // A conversation that is loaded again is not left.
    await page.evaluate(() => history.replaceState(null, "", "#m9"));
    await page.reload();
    await page.locator("#m60").waitFor();
    assert.equal(page.url(), `${home}#m9`);
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
  }
});

test("a reader who scrolls up gets the older messages, and what is read does not move", async () => {
  const { place, session } = await began("Long", 170);
  try {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const messages = page.locator(".scroller article.message");
    const first = () => messages.first().getAttribute("id");
    assert.equal(await messages.count(), 30);
    for (const [seen, loaded] of [["m141", "m91"], ["m91", "m41"], ["m41", "m1"]]) {
      const before = await page.evaluate((id) => {
        const pane = document.querySelector(".scroller");
        pane.scrollTop = -pane.scrollHeight;
        return document.getElementById(id).getBoundingClientRect().top;
      }, seen);
      await page.waitForFunction((id) => document.querySelector(".scroller article.message").id === id, loaded);
      const after = await page.evaluate((id) => document.getElementById(id).getBoundingClientRect().top, seen);
      assert.ok(Math.abs(after - before) <= 2, `${seen}: ${before} and ${after}`);
    }
    assert.equal(await messages.count(), 170);
    assert.ok(await page.locator("a.older").isHidden());
    // They stay when the page is brought up to date.
    await add(place, session, "One more.");
    await page.locator(".message").getByText("One more.").waitFor();
    assert.deepEqual([await messages.count(), await first()], [171, "m1"]);
    // On a phone, too.
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${place.address}/sessions/${session}`);
    assert.equal(await messages.count(), 30);
    await page.evaluate(() => {
      const pane = document.querySelector(".scroller");
      pane.scrollTop = -pane.scrollHeight;
    });
    await page.waitForFunction(() => document.querySelector(".scroller article.message").id === "m92");
  } finally {
    await place.stop();
  }
});

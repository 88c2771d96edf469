// Nothing that is seen moves while a turn goes on: wide and on a phone, scrolled or not, on the page of a
// session and on that of a turn, while agents stream, while a call waits for a person, when a turn fails or
// is cancelled, and when an image is loaded.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browser as launch, enter, shifting, shot } from "./browser.mjs";
import { Place, withDaemon } from "./place.mjs";
import { breaking, model, refusing, settings, streaming, team } from "./tools.mjs";

const MOST = 0.02;
const SIZES = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

const said = (count) =>
  Array.from({ length: count }, (_, at) => ({ role: at % 2 ? "assistant" : "user", content: `${at + 1}: The move is on Friday.` }));

// Everything that can be scrolled is scrolled to that part of its height.
const scroll = (page, part) => page.evaluate((part) => {
  for (const box of [document.scrollingElement, ...document.querySelectorAll(".scroller, .pane")]) {
    const room = box.scrollHeight - box.clientHeight;
    box.scrollTop = getComputedStyle(box).flexDirection === "column-reverse" ? -room * part : room * part;
  }
}, part);

// The pages of a session and of a turn, in each size and scrolled to the beginning, the middle and the end;
// by a browser that is so many times slower.
async function opened(place, session, turn, slower = 1) {
  const all = [];
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const part of [0, 0.5, 1]) {
      for (const [name, path] of [["session", ""], ["turn", `/turns/${turn}`]]) {
        all.push({ viewport, part, name: `${name}-${size}-${part}`, path: `/sessions/${session}${path}` });
      }
    }
  }
  return Promise.all(all.map(async ({ viewport, part, name, path }) => {
    const page = await enter(browser, place, { viewport });
    const tools = await page.context().newCDPSession(page);
    await tools.send("Emulation.setCPUThrottlingRate", { rate: slower });
    await page.goto(place.address + path);
    await page.waitForLoadState("load");
    await scroll(page, part);
    await page.waitForTimeout(100);
    return { page, name, shift: await shifting(page) };
  }));
}

async function still(all, when) {
  const wrong = [];
  for (const { page, name, shift } of all) {
    await page.waitForTimeout(100);
    const value = await shift();
    await shot(page, `shift-${name}-${when}`, false);
    if (value > MOST) wrong.push(`${name} ${when}: ${value.toFixed(3)}\n${await shift.moved()}`);
    assert.deepEqual(page.faults, []);
  }
  assert.deepEqual(wrong, []);
}

const close = (all) => Promise.all(all.map(({ page }) => page.context().close()));

test("while a call waits for a person, and when it is approved", async () => {
  for (const messages of [2, 40]) {
    let begin;
    const answers = await model(undefined, new Promise((done) => { begin = done; }));
    const place = await new Place(settings(answers.address)).serve();
    try {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Letters", messages: said(messages) });
      const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Tell them.", wait: false });
      const all = await opened(place, session, turn);
      begin();
      for (const { page } of all) await page.locator("article[id^='call-']").waitFor({ state: "attached" });
      await still(all, `waiting-${messages}`);
      // The timeline is there while the turn goes on, and has the same height after it.
      const turns = all.filter(({ name }) => name.startsWith("turn"));
      const heights = () => Promise.all(turns.map(({ page }) => page.locator(".timeline").evaluate((one) => one.offsetHeight)));
      for (const { page } of turns) await page.locator(".timeline li", { hasText: "so far" }).waitFor({ state: "attached" });
      for (const { page } of turns) await page.locator(".timeline rect.person").first().waitFor({ state: "attached" });
      const reserved = await heights();
      const { items } = await place.ask("GET", "/v1/approvals");
      await place.ask("POST", `/v1/approvals/${items[0].call}`, { decision: "approve" });
      for (const { page } of all) await page.locator(".turn .state.answered").first().waitFor({ state: "attached" });
      await still(all, `approved-${messages}`);
      for (const { page } of turns) await page.locator(".timeline li", { hasText: "in all" }).waitFor({ state: "attached" });
      assert.deepEqual(await heights(), reserved);
      await close(all);
    } finally {
      await place.stop();
      await answers.close();
    }
  }
});

test("while three agents stream, word by word and in a few large pieces", async () => {
  // What comes before its place is on the page is much, where a browser is slow.
  for (const pace of [{ tokens: 500, perSecond: 50, slower: 3 }, { tokens: 3, perSecond: 1, text: "word ".repeat(500) }]) {
    const provider = await streaming(pace);
    const budgets = "[budget.session]\nmax_tokens = 100_000_000\n[budget.turn]\nmax_tokens = 20_000_000\n[budget.run]\nmax_tokens = 5_000_000\n";
    const place = await new Place(team(provider.address) + budgets).serve();
    try {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Stream", messages: said(40) });
      // Of the second one the page has an earlier turn.
      await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is the move?" });
      const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "And who moves?", wait: false });
      const all = await opened(place, session, turn, pace.slower);
      for (const { page } of all) await page.locator(`#turn-${turn} > header .state.answered`).waitFor({ state: "attached", timeout: 120_000 });
      await still(all, `streamed-${pace.tokens}`);
      // The budgets of the turn and of its session, and that of each run.
      for (const { page } of all.filter(({ name }) => name.startsWith("turn"))) assert.equal(await page.locator(".budgets li").count(), 6);
      await close(all);
    } finally {
      await place.stop();
      await provider.close();
    }
  }
});

test("when a turn fails, and when it is cancelled", async () => {
  for (const ending of ["failed", "cancelled"]) {
    let refuse;
    const provider = await refusing(new Promise((done) => { refuse = done; }));
    const place = await new Place(team(provider.address)).serve();
    try {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Failing", messages: said(40) });
      const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is the move?", wait: false });
      const all = await opened(place, session, turn);
      // The lead begins after the three others.
      for (const { page } of all) await page.locator(`#turn-${turn} .runs > li`).nth(2).waitFor({ state: "attached" });
      if (ending === "failed") refuse();
      else await place.ask("POST", `/v1/sessions/${session}/turns/${turn}/cancel`);
      for (const { page } of all) await page.locator(`#turn-${turn} > header .state.${ending}`).waitFor({ state: "attached" });
      await still(all, ending);
      if (ending === "failed") {
        // The reason is a line that unfolds to all of it, and is told of the lead once.
        const { page } = all.find(({ name }) => name === "turn-phone-0");
        const why = page.locator(`#why-${turn}`);
        assert.equal(await why.locator("p").isVisible(), false);
        await why.locator("summary").click();
        await why.locator("p").getByText("lead_failed: agent lead failed").waitFor();
        assert.equal(await page.locator(".runs > li", { hasText: "lead" }).locator(".trouble").count(), 0);
        assert.equal(await page.locator(".runs > li > details > summary.trouble").count(), 3);
      }
      await close(all);
    } finally {
      await place.stop();
      await provider.close();
    }
  }
});

test("when the connection breaks in the middle of the lead's answer", async () => {
  let [begin, cut] = [];
  const gates = [new Promise((done) => { begin = done; }), new Promise((done) => { cut = done; })];
  const provider = await breaking("I search for it.", "The move is on **Friday**, because", ...gates);
  const place = await new Place(`${settings(provider.address, "attempts = 1")}[agent_defaults]\nretries = 0\n`).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Cut", messages: said(40) });
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is the move?", wait: false });
    const all = await opened(place, session, turn);
    begin();
    const sessions = all.filter(({ name }) => name.startsWith("session"));
    for (const { page } of sessions) await page.locator(".under-way [data-run]").getByText("The move is on **Friday**, because").waitFor({ state: "attached" });
    cut();
    for (const { page } of all) await page.locator(`#turn-${turn} > header .state.failed`).waitFor({ state: "attached" });
    await still(all, "cut");
    // Why there is no answer is a line; it unfolds to all of the reason, and to what the lead said before,
    // also on a page that is loaded later.
    for (const { page, name } of all.filter(({ name }) => name.endsWith("-0"))) {
      await page.reload();
      const why = page.locator(`#why-${turn}`);
      assert.match(await why.locator("summary").textContent(), /^lead_failed: agent clerk failed/);
      const before = why.getByRole("group", { name: "Output of clerk" });
      assert.equal(await before.isVisible(), false);
      await why.locator("summary").click();
      await why.locator("p.trouble").getByText("agent clerk failed").waitFor();
      await before.getByText("The move is on Friday, because").waitFor();
      assert.equal(await before.locator("strong").textContent(), "Friday");
      await page.locator(`#turn-${turn}`).getByRole("button", { name: "Ask again" }).waitFor();
      assert.equal(await page.locator(".under-way").count(), 0);
      await shot(page, `cut-${name}`, false);
    }
    await close(all);
  } finally {
    await place.stop();
    await provider.close();
  }
});

test("when the lead is cancelled in the middle of its answer", async () => {
  let begin;
  const gates = [new Promise((done) => { begin = done; }), new Promise(() => {})];
  const provider = await breaking("I search for it.", "The move is on **Friday**, because", ...gates);
  const place = await new Place(settings(provider.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Stopped", messages: said(40) });
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is the move?", wait: false });
    const all = await opened(place, session, turn);
    begin();
    const sessions = all.filter(({ name }) => name.startsWith("session"));
    for (const { page } of sessions) await page.locator(".under-way [data-run]").getByText("The move is on **Friday**, because").waitFor({ state: "attached" });
    await place.ask("POST", `/v1/sessions/${session}/turns/${turn}/cancel`);
    for (const { page } of all) {
      await page.locator(`#turn-${turn} > header .state.cancelled`).waitFor({ state: "attached" });
      await page.locator(`#why-${turn}`).getByText("The move is on Friday, because").waitFor({ state: "attached" });
    }
    await still(all, "stopped");
    // What the lead said until then unfolds from the line of the turn.
    for (const { page } of all.filter(({ name }) => name.endsWith("-0"))) {
      const why = page.locator(`#why-${turn}`);
      await why.locator("summary").click();
      const before = why.getByRole("group", { name: "Output of clerk" });
      await before.getByText("The move is on Friday, because").waitFor();
      assert.equal(await before.locator("strong").textContent(), "Friday");
    }
    await close(all);
  } finally {
    await place.stop();
    await provider.close();
  }
});

test("when images are loaded, whether their sizes are known or not", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Images", messages: said(2) });
    const blank = await browser.newPage();
    const data = await blank.evaluate(() => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 600, height: 400 });
      canvas.getContext("2d").fillRect(0, 0, 600, 400);
      return canvas.toDataURL("image/png").split(",")[1];
    });
    await blank.close();
    const task = { task: "When is it?", agents: ["facts"], attachments: [{ filename: "plan.png", data }], wait: true };
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, task);
    // The sizes of images of other programs may be unknown.
    for (const [name, path, known] of [["message", "", true], ["task", `/turns/${turn}`, true], ["unknown", "", false]]) {
      for (const [size, viewport] of Object.entries(SIZES)) {
        let load;
        const gate = new Promise((done) => { load = done; });
        const page = await enter(browser, place, { viewport });
        await page.route("**/blobs/*", async (route) => {
          await gate;
          await route.continue();
        });
        if (!known) await page.route("**/sessions/*", async (route) => {
          const reply = await route.fetch();
          const body = (await reply.text()).replaceAll(' width="600" height="400"', "");
          await route.fulfill({ response: reply, body });
        });
        await page.goto(`${place.address}/sessions/${session}${path}`);
        const image = page.getByAltText("plan.png");
        await image.scrollIntoViewIfNeeded();
        assert.equal(await image.getAttribute("width"), known ? "600" : null);
        await page.waitForTimeout(100);
        const shift = await shifting(page);
        load();
        await page.waitForFunction(() => [...document.images].every((one) => one.naturalWidth > 0));
        await still([{ page, name: `${name}-${size}`, shift }], "loaded");
        await page.context().close();
      }
    }
  });
});

test("while a person asks on a phone", async () => {
  const spoken = await model("The move is on **Friday**.");
  const place = await new Place(settings(spoken.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Ask", messages: said(12) });
    const page = await enter(browser, place, { viewport: SIZES.phone });
    await page.goto(`${place.address}/sessions/${session}`);
    await page.getByLabel("Task").fill("When?");
    await page.locator("#estimate p").first().waitFor();
    const shift = await shifting(page);
    await page.getByRole("button", { name: "Ask clerk" }).click();
    await page.locator(".messages [data-run]").getByText("The move is on **Friday**.").waitFor();
    spoken.finish();
    await page.locator(".turn .state.answered").waitFor({ state: "attached" });
    await still([{ page, name: "asked", shift }], "answered");
  } finally {
    await place.stop();
    await spoken.close();
  }
});

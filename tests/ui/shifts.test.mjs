// Nothing that is seen moves while a turn goes on: wide and on a phone, scrolled or not, on the page of a
// session and on that of a turn, while agents stream and while a call waits for a person.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browser as launch, enter, shifting, shot } from "./browser.mjs";
import { Place } from "./place.mjs";
import { model, settings, streaming, team } from "./tools.mjs";

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

// The pages of a session and of a turn, in each size and scrolled to the beginning, the middle and the end.
async function opened(place, session, turn) {
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

test("while three agents stream", async () => {
  const provider = await streaming({ tokens: 500, perSecond: 50 });
  const place = await new Place(team(provider.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Stream", messages: said(40) });
    // Of the second one the page has an earlier turn.
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is the move?" });
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "And who moves?", wait: false });
    const all = await opened(place, session, turn);
    for (const { page } of all) await page.locator(`#turn-${turn} > header .state.answered`).waitFor({ state: "attached", timeout: 60_000 });
    await still(all, "streamed");
    await close(all);
  } finally {
    await place.stop();
    await provider.close();
  }
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
    await page.context().close();
  } finally {
    await place.stop();
    await spoken.close();
  }
});

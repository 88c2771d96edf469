// What people and models write, and how sessions are found, on the page in a real browser.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser as launch, enter } from "./browser.mjs";
import { Place } from "./place.mjs";
import { model, settings } from "./tools.mjs";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

// Characters that steer a terminal or reorder text, in what a reader is given: text, attributes, the
// title, fields. `found` has the texts with such a character, `replaced` counts those with a
// replacement.
const harmful = (page) =>
  page.evaluate(() => {
    const texts = [document.title];
    const nodes = document.createTreeWalker(document, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT | NodeFilter.SHOW_COMMENT);
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
      texts.push(String(node.nodeValue ?? ""), String(node.value ?? ""), ...[...(node.attributes ?? [])].map((one) => one.value));
    }
    const bad = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;
    return { found: texts.filter((text) => bad.test(text)), replaced: texts.filter((text) => text.includes("\ufffd")).length };
  });

test("no character of a title, a message or an answer reorders or steers what is shown", async () => {
  const bad = (text) => `${text} \u202egnp.exe\u009b2J\u001b[31m end`;
  const spoken = await model(bad("An answer"));
  const other = await new Place(settings(spoken.address)).serve();
  try {
    const { session } = await other.ask("POST", "/v1/sessions", {
      title: bad("A title"), labels: { kind: bad("a label") },
      messages: [{ role: "user", content: bad("A message") }],
    });
    const page = await enter(browser, other);
    const clean = async (path) => {
      const { found, replaced } = await harmful(page);
      assert.deepEqual(found, [], path);
      assert.ok(replaced > 0, `${path} shows none of the text`);
    };
    const home = `/sessions/${session}`;
    await page.goto(other.address + home);
    await clean(home);
    const { turn } = await other.ask("POST", `/v1${home}/turns`, { task: bad("A task"), wait: false });
    // While it is streamed: by the page's own script.
    await page.locator("[data-run]").getByText("An answer").waitFor();
    await clean("the stream");
    spoken.finish();
    await page.locator(".turn .state.answered").waitFor();
    const { items } = await other.ask("GET", `/v1${home}/turns`);
    const run = `${home}/runs/${items[0].runs[0].run}`;
    const history = `${home}/history?from=1`;
    for (const path of ["/", home, history, `${home}/tree`, `${home}/turns`, `${home}/turns/${turn}`, run, "/?q=gnp"]) {
      await page.goto(other.address + path);
      await clean(path);
    }
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await other.stop();
    await spoken.close();
  }
});

test("a text in Hebrew is read from right to left", async () => {
  const place = await new Place().serve();
  try {
    const text = "\u05e9\u05dc\u05d5\u05dd!";
    const { session } = await place.ask("POST", "/v1/sessions", { title: text, messages: [{ role: "user", content: text }] });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    for (const selector of ["h1 a", ".message .md p"]) {
      const [first, last] = await page.locator(selector).evaluate(({ firstChild }) => {
        const left = (from) => {
          const range = document.createRange();
          range.setStart(firstChild, from);
          range.setEnd(firstChild, from + 1);
          return range.getBoundingClientRect().left;
        };
        return [left(0), left(firstChild.length - 1)];
      });
      assert.ok(last < first, `${selector}: ${last} ${first}`);
    }
    const field = page.getByLabel("Task", { exact: true });
    assert.equal(await field.evaluate((node) => getComputedStyle(node).unicodeBidi), "plaintext");
    await page.context().close();
  } finally {
    await place.stop();
  }
});

test("on a phone a number in a table stays in one piece", async () => {
  const place = await new Place().serve();
  try {
    const row = (cell) => `| ${Array(8).fill(cell).join(" | ")} |`;
    const content = [row("Amount"), row("---"), row("1,234,567")].join("\n");
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Table", messages: [{ role: "user", content }] });
    const page = await enter(browser, place, { viewport: { width: 360, height: 740 } });
    await page.goto(`${place.address}/sessions/${session}`);
    const lines = await page.locator(".message td").evaluateAll((cells) => cells.map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return range.getClientRects().length;
    }));
    assert.deepEqual(lines, Array(8).fill(1));
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
    await page.context().close();
  } finally {
    await place.stop();
  }
});

test("on a phone a long name makes no page wider", async () => {
  const place = await new Place().serve();
  try {
    const long = "x".repeat(60);
    const pdf = Buffer.from("%PDF-1.7\n/Type /Page\n%%EOF\n");
    const file = { type: "attachment", filename: `${long}.pdf`, data: pdf.toString("base64") };
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Names", messages: [{ role: "user", content: "First." }] });
    const { items } = await place.ask("GET", `/v1/sessions/${session}/messages`);
    await place.ask("POST", `/v1/sessions/${session}/branches`, { name: long, at: items[0].id });
    await place.ask("POST", `/v1/sessions/${session}/messages`, { author: long, parts: [{ type: "text", text: "See." }, file] });
    const page = await enter(browser, place, { viewport: { width: 360, height: 740 } });
    const fits = async () => assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360, page.url());
    for (const path of ["", "/history"]) {
      await page.goto(`${place.address}/sessions/${session}${path}`);
      await page.getByText(`${long}.pdf`).waitFor();
      await fits();
    }
    await page.goto(`${place.address}/sessions/${session}`);
    await page.getByLabel("Task", { exact: true }).fill("What is it?");
    const text = { name: "bad.txt", mimeType: "text/plain", buffer: Buffer.from("no") };
    await page.getByLabel("Images and PDFs").setInputFiles([{ name: `${long}.pdf`, mimeType: "application/pdf", buffer: pdf }, text]);
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.getByRole("alert").getByText("bad.txt").waitFor();
    await fits();
    await page.context().close();
  } finally {
    await place.stop();
  }
});

test("a form sends back what it was given, and a long title is cut", async () => {
  const place = new Place();
  const text = "---\ndescription: Looks for risks.\n---\nIn Hebrew: \u2067\u05e9\u05dc\u05d5\u05dd\u2069.\nThe last line.\n";
  mkdirSync(join(place.path, "agents"));
  writeFileSync(join(place.path, "agents/risks.md"), text);
  await place.serve();
  try {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/agents/risks/edit`);
    const field = page.locator("textarea");
    assert.equal((await field.inputValue()).trim(), text.trim());
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Long ".repeat(20_000), messages: [{ role: "user", content: "Hello." }] });
    for (const path of ["/", `/sessions/${session}`, `/sessions/${session}/history?from=1`]) {
      await page.goto(place.address + path);
      const shown = await page.evaluate(() => document.documentElement.outerHTML.length);
      assert.ok(shown < 60_000, `${path}: ${shown}`);
    }
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
  }
});

test("the list of sessions is narrowed by a label", async () => {
  const other = await new Place().serve();
  try {
    for (const [title, labels] of [["Orders", { team: "shop" }], ["Returns", { team: "shop" }], ["Wages", { team: "office" }], ["Bare", {}]]) {
      await other.ask("POST", "/v1/sessions", { title, labels });
    }
    const page = await enter(browser, other);
    const shown = async (label) => {
      await page.getByLabel("Only sessions with this label").fill(label);
      await page.getByRole("button", { name: "Show" }).click();
      await page.waitForURL(`**/?label=${encodeURIComponent(label)}`);
      return (await page.locator("main td a.title").allTextContents()).sort();
    };
    assert.deepEqual(await shown("team=shop"), ["Orders", "Returns"]);
    assert.equal(await page.getByLabel("Only sessions with this label").inputValue(), "team=shop");
    assert.deepEqual(await shown("team=office"), ["Wages"]);
    assert.deepEqual(await shown("team=nobody"), []);
    await page.getByText("No session has the label team=nobody.").waitFor();
    await page.getByRole("link", { name: "Show all sessions" }).click();
    assert.equal(await page.locator("main td a.title").count(), 4);
    assert.deepEqual(await shown("team"), ["Orders", "Returns", "Wages"]);
    assert.deepEqual(await shown(""), ["Bare", "Orders", "Returns", "Wages"]);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await other.stop();
  }
});

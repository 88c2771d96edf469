// Pictures, agents, coming in and keys, in a real browser: with scripts and without, by keyboard, narrow,
// in forced colours, and with names and texts that mean harm.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { browser as launch, enter, shot } from "./browser.mjs";
import { Place, example, withDaemon } from "./place.mjs";
import { model, settings, streaming, team } from "./tools.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const day = () => new Date().toISOString().slice(0, 10);

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

// A place with an agent in a file of its own, and a session that was asked something.
async function asked(config = "") {
  const place = new Place(config);
  mkdirSync(join(place.path, "agents"));
  writeFileSync(
    join(place.path, "agents/poet.md"),
    "---\ndescription: Writes <b>verse</b>\nkind: extractive\nskills: []\ntags: [words]\n---\n\nYou write <i>verse</i>.\n",
  );
  await place.serve();
  const imported = place.session = (await importing(place)).session;
  await place.ask("POST", `/v1/sessions/${imported}/turns`, { task: "What could still go wrong?", agents: ["risks", "facts"] });
  await place.ask("POST", `/v1/sessions/${imported}/compactions`, { keep_messages: 10 });
  await place.ask("POST", `/v1/sessions/${imported}/turns`, { task: "And who decides?", agents: ["decisions"] });
  return place;
}

async function importing(place) {
  const headers = { Authorization: `Bearer ${place.token}`, "Content-Type": "application/octet-stream" };
  const reply = await fetch(`${place.address}/v1/imports?name=example.jsonl`, { method: "POST", headers, body: readFileSync(example) });
  assert.equal(reply.status, 201, await reply.clone().text());
  return reply.json();
}

async function faults(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }));
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  assert.deepEqual(told, [], name);
}

const paths = (session) => [
  "/", "/agents", "/agents/poet", "/agents/poet/edit", "/agents/risks", "/usage", "/usage?by=agent", "/usage?by=model", "/usage?by=session",
  `/usage?by=day&from=${day()}&to=${day()}`, "/settings", "/settings?q=budget", "/doctor", "/cluster", "/import", "/nothing-here",
  `/sessions/${session}`, `/sessions/${session}/context`, `/sessions/${session}/checkpoints/1/compare`, `/usage?session=${session}`,
  "/import/agents",
];

test("every page is free of faults that are known, in each form it is looked at", async () => {
  const place = await asked();
  try {
    for (const [form, options] of Object.entries({
      light: {}, dark: { colorScheme: "dark" }, forced: { forcedColors: "active" },
      phone: { viewport: { width: 390, height: 844 } }, zoomed, "without scripts": { javaScriptEnabled: false },
    })) {
      const page = await enter(browser, place, options);
      for (const path of paths(place.session)) {
        const reply = await page.goto(place.address + path);
        assert.equal(reply.status(), path === "/nothing-here" ? 404 : 200, `${path} ${await reply.text().then((text) => text.slice(-800))}`);
        if (options.javaScriptEnabled !== false) {
          await faults(page, `${form} ${path}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          assert.ok(wide <= 0, `${path} is ${wide} px too wide in ${form}`);
        }
        await shot(page, `${form}${path.replaceAll(place.session, "s").replaceAll(/[^a-z0-9]+/gi, "-")}`);
      }
      const own = page.faults.filter((fault) => !fault.includes("404"));
      assert.deepEqual(own, [], form);
      await page.context().close();
    }
  } finally {
    await place.stop();
  }
});

// A window of 1280 pixels at 200 %.
const zoomed = { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 };

// What is shown of what a person can do or read, and what is cut off without a way to see it.
const seen = () => {
  const named = (one) => (one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent).trim().slice(0, 60);
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && one.getClientRects().length > 0;
  const parts = [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary, h1, h2, h3, th, dt, dd")];
  const outside = (one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !one.closest(".scroll, pre, .scroller, .skip, svg");
  const cut = [...document.querySelectorAll("main *")].filter((one) => {
    const { overflowX, textOverflow } = getComputedStyle(one);
    return ["hidden", "clip"].includes(overflowX) && textOverflow !== "ellipsis" && one.scrollWidth > one.clientWidth + 1 && isShown(one) && !one.matches(".hidden, svg");
  });
  return {
    shown: parts.filter(isShown).map((one) => `${one.localName} ${named(one)}`),
    outside: parts.filter(isShown).filter(outside).map((one) => one.outerHTML.slice(0, 120)),
    cut: cut.map((one) => one.outerHTML.slice(0, 120)),
  };
};

test("at 200 % nothing is hidden, cut off or wider than the window", async () => {
  const place = await asked();
  try {
    const wide = await enter(browser, place);
    const near = await enter(browser, place, zoomed);
    for (const path of paths(place.session)) {
      await wide.goto(place.address + path);
      await near.goto(place.address + path);
      const [whole, half] = [await wide.evaluate(seen), await near.evaluate(seen)];
      assert.deepEqual(whole.shown.filter((one) => !half.shown.includes(one)), [], `hidden on ${path}`);
      assert.deepEqual([half.outside, half.cut], [[], []], path);
      const more = await near.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(more <= 0, `${path} is ${more} px too wide`);
    }
    await wide.context().close();
  } finally {
    await place.stop();
  }
});

test("at 320 pixels no page scrolls sideways, and neither does the table of an agent's runs", async () => {
  const place = await asked();
  try {
    const page = await enter(browser, place, { viewport: { width: 320, height: 640 } });
    const { items } = await place.ask("GET", `/v1/sessions/${place.session}/turns`);
    for (const path of [...paths(place.session), `/sessions/${place.session}/turns/${items[0].turn}`]) {
      await page.goto(place.address + path);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${path} is ${wide} px too wide`);
      const inside = await page.evaluate(() => [...document.querySelectorAll(".scroll:has(.stacked)")].map((one) => one.scrollWidth - one.clientWidth));
      assert.deepEqual(inside.filter((more) => more > 0), [], path);
    }
    await page.goto(`${place.address}/agents/risks`);
    const runs = page.getByRole("table").filter({ has: page.getByRole("columnheader", { name: "Opened" }) });
    assert.equal(await runs.getByRole("row").first().getByRole("columnheader").count(), 7);
  } finally {
    await place.stop();
  }
});

test("at 320 pixels the numbers of a budget are not torn apart, and a reservation moves nothing", async () => {
  const provider = await streaming({ tokens: 60, perSecond: 20 });
  const budgets = "[budget.session]\nmax_tokens = 100_000_000\nmax_cost_usd = 12.5\n[budget.turn]\nmax_tokens = 20_000_000\n";
  const place = await new Place(team(provider.address) + budgets).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Budgets" });
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Who moves?", wait: false });
    const page = await enter(browser, place, { viewport: { width: 320, height: 640 } });
    await page.goto(`${place.address}/sessions/${session}/turns/${turn}`);
    const own = page.locator("section:has(> h2:text-is('Budgets')) .budgets");
    await own.getByText("reserved").first().waitFor({ state: "attached" });
    const lines = () => own.locator(".number span").evaluateAll((all) => all.map((one) => one.offsetHeight / parseFloat(getComputedStyle(one).lineHeight)));
    const seen = await lines();
    assert.ok(seen.length > 3, `${seen}`);
    assert.deepEqual(seen.filter((many) => Math.round(many) !== 1), []);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${wide} px too wide`);
    await shot(page, "budgets-320");
    const height = await own.evaluate((one) => one.offsetHeight);
    await page.locator(`#turn-${turn} > header .state.answered`).waitFor({ state: "attached", timeout: 60_000 });
    await own.getByText("reserved").first().waitFor({ state: "detached" });
    assert.equal(await own.evaluate((one) => one.offsetHeight), height);
  } finally {
    await place.stop();
    await provider.close();
  }
});

test("by keyboard alone the new pages are reached, and what has the focus is seen", async () => {
  const place = await asked();
  const { secret } = await place.ask("POST", "/v1/tokens", { name: "ada.who", scope: "admin" });
  place.bearer = secret;
  try {
    for (const options of [{}, { forcedColors: "active" }]) {
      const page = await enter(browser, place, options);
      for (const path of ["/agents", "/agents/poet", "/agents/poet/edit", "/import", "/import/agents", "/doctor", `/sessions/${place.session}/checkpoints/1/compare`]) {
        await page.goto(place.address + path);
        const can = await page.evaluate(() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
          .filter((one) => one.checkVisibility() && !one.disabled).length);
        const reached = new Set();
        for (let stops = 0; stops < 250; stops++) {
          await page.keyboard.press("Tab");
          const at = await page.evaluate(() => {
            const one = document.activeElement;
            if (one === document.body) return null;
            const { outlineStyle, outlineWidth } = getComputedStyle(one);
            const all = [...document.querySelectorAll("*")];
            return { at: all.indexOf(one), seen: outlineStyle !== "none" && outlineWidth !== "0px", html: one.outerHTML.slice(0, 100) };
          });
          if (!at || reached.has(at.at)) break;
          assert.ok(at.seen, `${path}: the focus is not seen on ${at.html}`);
          reached.add(at.at);
        }
        assert.ok(reached.size >= can, `${path}: ${reached.size} of ${can} are reached`);
      }
      // The name of who is logged in, and the way out.
      await page.goto(`${place.address}/agents`);
      await page.locator("header .who").getByText("ada.who").waitFor();
      await faults(page, "who");
      const out = page.getByRole("button", { name: "Log out" });
      await out.focus();
      await page.keyboard.press("Enter");
      await page.getByText("You are not logged in").waitFor();
      await faults(page, "logged out");
      await page.context().close();
    }
  } finally {
    await place.stop();
  }
});

test("pictures say what their tables say", async () => {
  const place = await asked();
  try {
    const { session } = place;
    const history = await place.ask("GET", `/v1/sessions/${session}/context/history`);
    assert.equal(history.items.length, 3, JSON.stringify(history));
    const [newest, compacted, oldest] = history.items;
    assert.equal(compacted.state, "compacted");
    assert.ok(compacted.changed && compacted.tokens < compacted.tokens_before && compacted.checkpoints.length === 1);
    assert.ok(newest.tokens < oldest.tokens && newest.summary_tokens > 0 && oldest.summary_tokens === 0);
    const parts = await place.ask("GET", `/v1/sessions/${session}/context/history?limit=1`);
    const rest = await place.ask("GET", `/v1/sessions/${session}/context/history?limit=500&cursor=${parts.next}`);
    assert.deepEqual([...parts.items, ...rest.items], history.items);

    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}/context`);
    assert.deepEqual(await page.locator(".columns rect.user, .columns rect.short").count(), 3);
    const changes = history.items.filter(({ changed }) => changed);
    assert.equal(await page.locator(".columns rect.frozen").count(), changes.length);
    await page.locator("#history-table summary").click();
    assert.equal(await page.locator("#history-table tbody tr").count(), 3);

    const usage = await place.ask("GET", `/v1/usage?by=day&from=${day()}`);
    assert.deepEqual(usage.groups.map(({ key }) => key), [day()]);
    assert.equal(usage.groups[0].input_tokens, usage.total.input_tokens);
    for (const by of ["agent", "model", "session"]) {
      const { groups, total } = await place.ask("GET", `/v1/usage?by=${by}`);
      assert.equal(groups.reduce((sum, group) => sum + group.input_tokens, 0), total.input_tokens, by);
    }
    assert.deepEqual((await place.ask("GET", "/v1/usage?by=day&from=2001-01-01&to=2001-12-31")).rows, []);
    for (const [wrong, status] of [["from=yesterday", /422/], ["to=2026-13-01", /422/], ["by=week", /400/]]) {
      await assert.rejects(place.ask("GET", `/v1/usage?${wrong}`), status, wrong);
    }
    await page.goto(`${place.address}/usage`);
    await page.getByRole("link", { name: day() }).first().click();
    await page.getByRole("heading", { name: "By session" }).waitFor();
    // From an agent to its usage over time, which keeps the day.
    await page.goto(`${place.address}/usage?by=agent&from=${day()}`);
    const { groups: agents } = await place.ask("GET", `/v1/usage?by=agent&from=${day()}`);
    const [{ key: agent, input_tokens: sent }] = agents.filter(({ key }) => key);
    await page.locator(".lanes.usage").first().getByRole("link", { name: agent, exact: true }).click();
    await page.getByRole("heading", { name: "By day" }).waitFor();
    assert.equal(await page.locator("#from").inputValue(), day());
    assert.equal(await page.locator("#agent").inputValue(), agent);
    await page.locator("#groups-table summary").click();
    const cell = await page.locator("#groups-table tbody tr td").nth(1).textContent();
    assert.equal(Number(cell.replace(/\D/g, "")), sent);

    await page.goto(`${place.address}/sessions/${session}/checkpoints/1/compare`);
    const kept = await page.locator("article ins.kept").count();
    const dropped = await page.locator("article del.dropped").count();
    assert.ok(kept > 0 && dropped > 0, `${kept} kept, ${dropped} dropped`);
    // The original is as it was written.
    const shown = await page.locator("#m1 .marked").textContent();
    const { items } = await place.ask("GET", `/v1/sessions/${session}/messages?limit=1`);
    assert.equal(shown, items[0].parts[0].text);
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
  }
});

test("a turn's timeline has its queue, first words, tools and the person who decided", async () => {
  const answers = await model();
  const place = await new Place(settings(answers.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Letters", messages: [{ role: "user", content: "We move." }] });
    const estimate = await place.ask("POST", `/v1/sessions/${session}/turns/estimate`, { task: "Tell them." });
    assert.equal(estimate.runs.length, 1);
    assert.ok(estimate.input_tokens > 10 && estimate.input_cost_usd > 0 && estimate.max_cost_usd > estimate.input_cost_usd, JSON.stringify(estimate));
    assert.equal((await place.ask("GET", `/v1/sessions/${session}`)).open_turns?.length ?? 0, 0);
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Tell them.", wait: false });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}/turns/${turn}`);
    await page.getByRole("button", { name: "Approve" }).first().waitFor();
    let times = await place.ask("GET", `/v1/sessions/${session}/turns/${turn}/timeline`);
    const open = times.runs[0].spans.filter(({ to }) => to === null);
    assert.deepEqual(open.map(({ kind, tool }) => [kind, tool]), [["person", "mail__send"]]);
    await page.getByRole("button", { name: "Approve" }).first().click();
    await page.locator(".turn .state.answered").waitFor();
    times = await place.ask("GET", `/v1/sessions/${session}/turns/${turn}/timeline`);
    const [run] = times.runs;
    const kinds = run.spans.map(({ kind }) => kind).filter((kind) => kind !== "queue");
    assert.deepEqual(kinds.filter((kind, at) => kind !== kinds[at - 1]), ["model", "person", "tool", "model"], JSON.stringify(run));
    const instants = [times.accepted_at, times.started_at, times.frozen_at, run.opened_at, run.started_at, run.first_token_at, run.ended_at].map(Date.parse);
    assert.deepEqual(instants, instants.toSorted((a, b) => a - b), JSON.stringify(times));
    await page.goto(`${place.address}/sessions/${session}/turns/${turn}`);
    assert.equal(await page.locator(".timeline rect.person").count(), 1);
    assert.equal(await page.locator(".timeline rect.first").count(), 1);
    await page.locator("#times-table summary").click();
    await page.locator("#times-table").getByText("waited for a person: mail__send was approved").waitFor();
    await shot(page, "timeline");
    await assert.rejects(place.ask("GET", `/v1/sessions/${session}/turns/${session}/timeline`), /404/);
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
    await answers.close();
  }
});

test("an agent is looked at, tried, and changed with a check and a difference", async () => {
  const place = await asked();
  try {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/agents`);
    await page.getByRole("link", { name: "poet" }).click();
    await page.getByText("Writes <b>verse</b>", { exact: true }).waitFor();
    assert.equal(await page.locator("main b, main i").count(), 0);
    await page.getByLabel("Task").fill("When is the move?");
    await page.getByRole("button", { name: "Ask poet" }).click();
    await page.getByRole("heading", { name: "Trying poet" }).waitFor();
    await page.locator(".turn .state").first().waitFor();

    await page.goto(`${place.address}/agents/poet/edit`);
    const other = await enter(browser, place);
    await other.goto(`${place.address}/agents/poet/edit`);
    const text = page.locator("#text");
    const before = await text.inputValue();
    await text.fill(before.replace("skills: []", "skils: []"));
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText(/skils/).first().waitFor();
    // An unknown key is an error, as in `unisono agents check`.
    await page.getByText("The text cannot be saved").waitFor();
    assert.equal(await page.getByRole("button", { name: "Save these changes" }).count(), 0);
    // What is wrong is not saved.
    await text.fill(before.replace("kind: extractive", "kind: extractiv"));
    await page.getByRole("button", { name: /Check|Save/ }).click();
    await page.getByText("The text cannot be saved").waitFor();
    assert.equal(await page.getByRole("button", { name: "Save these changes" }).count(), 0);
    await text.fill(before.replace("<i>verse</i>", "short verse"));
    await page.getByRole("button", { name: "Check" }).click();
    await page.locator(".diff mark").first().waitFor();
    await shot(page, "agent-difference");
    await page.getByRole("button", { name: "Save these changes" }).click();
    await page.getByRole("heading", { name: "poet" }).waitFor();
    const saved = readFileSync(join(place.path, "agents/poet.md"), "utf8");
    assert.ok(saved.includes("short verse"), saved);

    // The second one is refused, with the difference.
    await other.locator("#text").fill(before.replace("<i>verse</i>", "long verse"));
    await other.getByRole("button", { name: "Check" }).click();
    await other.getByText("Somebody else changed the file").waitFor();
    await other.locator(".diff .own", { hasText: "short verse" }).waitFor();
    assert.ok(!readFileSync(join(place.path, "agents/poet.md"), "utf8").includes("long verse"));
    const detail = await place.ask("GET", "/v1/agents/poet");
    const stale = { text: detail.file.text, digest: "0".repeat(64) };
    await assert.rejects(place.ask("PUT", "/v1/agents/poet", stale), /409/);
    await assert.rejects(place.ask("PUT", "/v1/agents/risks", stale), /404/);
    await assert.rejects(place.ask("GET", "/v1/agents/..%2F..%2Fetc"), /40[04]/);
    const bad = { text: "---\nkind: extractiv\n---\n", digest: detail.file.digest };
    await assert.rejects(place.ask("PUT", "/v1/agents/poet", bad), /422|400/);
    await other.context().close();
  } finally {
    await place.stop();
  }
});

test("an edited file keeps its line ends, and only what was changed is a difference", async () => {
  const place = new Place();
  const path = join(place.path, "agents/poet.md");
  const lines = ["---", "description: Writes verse", "kind: extractive", "---", "", "You write verse.", "You rhyme.", ""];
  mkdirSync(join(place.path, "agents"));
  writeFileSync(path, lines.join("\r\n"));
  await place.serve();
  try {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/agents/poet/edit`);
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText("The text equals the file.").waitFor();
    const text = page.locator("#text");
    await text.fill((await text.inputValue()).replace("write verse", "write short verse"));
    await page.getByRole("button", { name: "Check" }).click();
    await page.locator(".diff .theirs").waitFor();
    assert.equal(await page.locator(".diff .theirs, .diff .own").count(), 2);
    await page.getByRole("button", { name: "Save these changes" }).click();
    await page.getByRole("heading", { name: "poet" }).waitFor();
    const expected = lines.join("\r\n").replace("write verse", "write short verse");
    assert.equal(readFileSync(path, "utf8"), expected);
  } finally {
    await place.stop();
  }
});

test("where it is off no file of an agent is changed", async () => {
  const place = await asked('[web]\nedit_agents = "off"\n');
  try {
    const { file } = await place.ask("GET", "/v1/agents/poet");
    assert.equal(file.editable, false);
    await assert.rejects(place.ask("PUT", "/v1/agents/poet", { text: file.text, digest: file.digest }), /403/);
    const page = await enter(browser, place);
    assert.equal((await page.goto(`${place.address}/agents/poet/edit`)).status(), 403);
    await page.goto(`${place.address}/agents/poet`);
    assert.equal(await page.getByRole("link", { name: "Edit …" }).count(), 0);
  } finally {
    await place.stop();
  }
});

test("without scripts a file is imported, with its invalid lines named, and exported again", async () => {
  await withDaemon(new Place("[server]\nimport_messages = 5\n"), async (place) => {
    const page = await enter(browser, place, { javaScriptEnabled: false, acceptDownloads: true });
    await page.getByText("There is no conversation yet").waitFor();
    await page.getByRole("link", { name: "Import a conversation of your own" }).click();
    const line = (role, content) => JSON.stringify({ role, content });
    const bad = [line("user", "One <b>"), "no json at all", line("assistant", "Two")].join("\n");
    const file = { name: "talk <i>.jsonl", mimeType: "application/json", buffer: Buffer.from(bad) };
    await page.getByLabel("Files", { exact: true }).setInputFiles(file);
    await page.getByRole("button", { name: "Import" }).click();
    const refused = await page.locator("#refused", { hasText: "2" }).innerText();
    assert.match(refused, /choose “Skip invalid lines”/);
    assert.doesNotMatch(refused, /--skip-bad/);
    assert.equal(await page.locator("main i").count(), 0);
    await shot(page, "import-refused");
    await page.getByLabel("Files", { exact: true }).setInputFiles(file);
    await page.getByLabel("Skip invalid lines").check();
    await page.getByRole("button", { name: "Import" }).click();
    await page.getByText("1 invalid message or line skipped").waitFor();
    await page.getByText("skipped line 2:2: this is not JSON").waitFor();
    await page.getByRole("link", { name: "Open the conversation" }).click();
    await page.getByText("One <b>").waitFor();
    await page.getByRole("link", { name: "Export …" }).click();
    for (const [format, ending] of [["unisono", "jsonl"], ["openai", "jsonl"], ["anthropic", "json"], ["sharegpt", "json"]]) {
      await page.getByLabel("Format").selectOption(format);
      const saving = page.waitForEvent("download");
      await page.getByRole("button", { name: "Export" }).click();
      const saved = await saving;
      assert.match(saved.suggestedFilename(), new RegExp(`^session-[0-9a-f]{32}\\.${ending}$`));
      const lines = readFileSync(await saved.path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
      assert.ok(JSON.stringify(lines).includes("One <b>"), format);
      if (ending === "json") assert.equal(lines.length, 1);
    }
    // What was exported comes in again.
    await page.goto(`${place.address}/import`);
    const many = Array.from({ length: 6 }, () => line("user", "x")).join("\n");
    await page.getByLabel("Files", { exact: true }).setInputFiles({ name: "many.jsonl", mimeType: "application/json", buffer: Buffer.from(many) });
    await page.getByRole("button", { name: "Import" }).click();
    await page.locator("#refused", { hasText: "import_messages" }).waitFor();
    await page.getByLabel("Files", { exact: true }).setInputFiles({ name: "again.jsonl", mimeType: "application/json", buffer: Buffer.from("") });
    await page.getByRole("button", { name: "Import" }).click();
    await page.locator("#refused").waitFor();
  });
});

test("one branch is exported from its page, in a dialog that the file closes", async () => {
  await withDaemon(new Place(), async (place) => {
    const messages = [{ role: "user", content: "Friday." }, { role: "assistant", content: "Noted." }, { role: "user", content: "No: Monday." }];
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Two ways", messages });
    await place.ask("POST", `/v1/sessions/${session}/branches`, { name: "short", at: "#2" });
    const page = await enter(browser, place, { acceptDownloads: true });
    for (const [branch, selected, said] of [["main", "", true], ["short", "short", false]]) {
      await page.goto(`${place.address}/sessions/${session}?branch=${encodeURIComponent(branch)}`);
      await page.getByRole("link", { name: "Export …" }).click();
      const box = page.getByRole("dialog", { name: "Export this session" });
      assert.equal(await box.getByLabel("Branch").inputValue(), selected);
      await shot(page, "export", false);
      await box.getByLabel("Format").selectOption("openai");
      const saving = page.waitForEvent("download");
      await box.getByRole("button", { name: "Export" }).click();
      const text = readFileSync(await (await saving).path(), "utf8");
      assert.equal(text.includes("Monday"), said, text);
      await box.waitFor({ state: "detached" });
    }
    assert.deepEqual(page.faults, []);
  });
});

test("a file that is dropped on the page or on the list of sessions is imported", async () => {
  await withDaemon(new Place(), async (place) => {
    const page = await enter(browser, place);
    const drop = async (text) => {
      const data = await page.evaluateHandle((text) => {
        const all = new DataTransfer();
        all.items.add(new File([text], "dropped.jsonl", { type: "application/json" }));
        return all;
      }, text);
      await page.dispatchEvent("main", "drop", { dataTransfer: data });
    };
    for (const [path, words] of [["/import", "Yes."], ["/", "No."]]) {
      await page.goto(place.address + path);
      await drop(JSON.stringify({ role: "user", content: words }));
      await page.locator(".message").getByText(words).waitFor();
    }
    // What is wrong with a file is said in its place, and the form is there again.
    await page.goto(`${place.address}/`);
    await drop("no json at all");
    await page.locator("#refused").waitFor();
    await page.getByLabel("Skip invalid lines").waitFor();
    assert.equal(await page.getByLabel("Files").evaluate((field) => field.files.length), 1);
    assert.deepEqual(page.faults.filter((fault) => !fault.includes("422")), []);
  });
});

test("from nothing to a first answer, offline", async () => {
  await withDaemon(new Place(), async (place) => {
    const page = await enter(browser, place);
    await shot(page, "first-run");
    await page.getByRole("button", { name: "Start from the example" }).click();
    await page.getByLabel("Task").fill("What could still go wrong?");
    await page.getByRole("button", { name: "Ask lead" }).click();
    await page.locator(".turn .state.answered").waitFor();
    await page.goto(`${place.address}/doctor`);
    await page.getByText("default model").waitFor();
  });
});

test("keys are those of their places on a keyboard for another script", async () => {
  await withDaemon(new Place(), async (place) => {
    const page = await enter(browser, place);
    await page.getByRole("heading", { name: "Sessions" }).waitFor();
    const press = (init) => page.locator("body").dispatchEvent("keydown", init);
    // A letter alone leads nowhere, also at once after the page was opened.
    await page.evaluate(() => {
      const event = new KeyboardEvent("keydown", { key: "a", bubbles: true });
      Object.defineProperty(event, "timeStamp", { value: 100 });
      document.body.dispatchEvent(event);
    });
    await press({ key: "л", code: "KeyK", ctrlKey: true });
    await page.getByRole("dialog", { name: "Go to" }).waitFor();
    assert.equal(new URL(page.url()).pathname, "/");
    await page.keyboard.press("Escape");
    // A Latin letter is what is written on its key.
    await press({ key: "t", code: "KeyK", ctrlKey: true });
    assert.equal(await page.getByRole("dialog", { name: "Go to" }).count(), 0);
    await press({ key: "п", code: "KeyG" });
    await press({ key: "ф", code: "KeyA" });
    await page.getByRole("heading", { name: "Agents" }).waitFor();
  });
});

test("keys: a list, a palette, an agent that is named, and an estimate before a task is sent", async () => {
  const place = await asked();
  try {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${place.session}`);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await faults(page, "the list of keys");
    await shot(page, "keys", false);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Go to" });
    await palette.getByRole("option", { name: "Agent: poet" }).or(palette.getByRole("option").first()).first().waitFor();
    await page.keyboard.type("poet");
    await palette.getByRole("option", { name: "Agent: poet", selected: true }).waitFor();
    await faults(page, "the palette");
    await shot(page, "palette", false);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "poet" }).waitFor();
    await page.goBack();
    // What is chosen stays so when the agents come later, and Enter that ends a word of an input method goes nowhere.
    let answer;
    const later = new Promise((done) => { answer = done; });
    await page.route("**/v1/agents", (route) => later.then(() => route.continue()), { times: 1 });
    await page.keyboard.press("Control+k");
    await page.keyboard.type("ris");
    await page.keyboard.press("ArrowUp");
    answer();
    await palette.getByRole("option", { name: "Agent: risks" }).waitFor();
    await palette.getByRole("option", { name: "Search all that was said: ris", selected: true }).waitFor();
    await palette.getByRole("combobox").dispatchEvent("keydown", { key: "Enter", isComposing: true });
    assert.equal(await palette.count(), 1);
    await page.keyboard.press("Escape");
    await palette.waitFor({ state: "hidden" });
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "within");
    await page.keyboard.type("Friday");
    await page.keyboard.press("Enter");
    // What was found is shown over the conversation; a result leads to its message there.
    const found = page.getByRole("dialog", { name: "Messages that match" });
    await found.locator("mark").first().waitFor();
    await faults(page, "the results of a search");
    await shot(page, "found", false);
    const hit = found.locator("article header a").last();
    const target = (await hit.getAttribute("href")).split("#")[1];
    assert.equal(await page.locator(`#live #${target}`).count(), 1);
    await hit.click();
    await found.waitFor({ state: "detached" });
    await page.locator(`#${target}`).waitFor();
    assert.match(page.url(), new RegExp(`/sessions/${place.session}(\\?[^/]*)?#${target}$`));
    await page.keyboard.press("/");
    await page.locator("#within").fill("zyzzyva");
    await page.keyboard.press("Enter");
    await found.getByText("0 found").waitFor();
    await page.keyboard.press("Escape");
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("c");
    assert.equal(await page.evaluate(() => document.activeElement.id), "task");
    await page.keyboard.type("Which risks? @ris");
    await page.getByRole("group", { name: "Agents with that name" }).getByRole("button", { name: "risks" }).waitFor();
    assert.equal(await page.locator("#said").textContent(), "Tab chooses risks.");
    await page.keyboard.press("Tab");
    assert.equal(await page.getByLabel("Task").inputValue(), "Which risks? ");
    assert.equal(await page.getByRole("checkbox", { name: "risks" }).isChecked(), true);
    // Or its whole name is written.
    const facts = page.getByRole("checkbox", { name: "facts" });
    await facts.uncheck();
    await page.getByLabel("Task").focus();
    await page.keyboard.press("End");
    await page.keyboard.type("@facts and who?");
    assert.equal(await page.getByLabel("Task").inputValue(), "Which risks? and who?");
    assert.equal(await facts.isChecked(), true);
    await page.locator("#estimate", { hasText: "tokens in" }).waitFor();
    await faults(page, "with an estimate");
    await shot(page, "estimate");
    // In a field a letter is a letter.
    await page.keyboard.type("g?");
    assert.equal(await page.getByRole("dialog").count(), 0);
    assert.deepEqual(page.faults, []);
    await page.context().close();

    const plain = await enter(browser, place, { javaScriptEnabled: false });
    await plain.goto(`${place.address}/sessions/${place.session}`);
    await plain.getByLabel("Task").fill("What now?");
    await plain.getByRole("button", { name: "Estimate" }).click();
    await plain.locator("#estimate", { hasText: "tokens in" }).waitFor();
  } finally {
    await place.stop();
  }
});

test("a wrong address leads on, and settings are found by what they mean", async () => {
  await withDaemon(new Place(), async (place) => {
    const page = await enter(browser, place);
    assert.equal((await page.goto(`${place.address}/agnets/`)).status(), 404);
    await page.getByText("Did you mean").getByRole("link", { name: "Agents" }).click();
    await page.getByRole("heading", { name: "Agents" }).waitFor();
    await page.goto(`${place.address}/sessions/0192f0c1-0000-7000-8000-000000000000`);
    await page.getByRole("link", { name: "Back to the sessions" }).waitFor();
    await page.goto(`${place.address}/settings`);
    await page.getByLabel("Search keys").fill("calls one reply");
    await page.keyboard.press("Enter");
    await page.getByRole("status").filter({ hasText: "settings" }).waitFor();
    await page.locator("[id='key-turn.calls_per_reply']").waitFor();
    assert.equal(await page.locator("[id='key-server.bind']").count(), 0);
    // Programs are answered as programs.
    const reply = await fetch(`${place.address}/v1/nothing`, { headers: { Authorization: `Bearer ${place.token}`, Accept: "text/html" } });
    assert.equal(reply.headers.get("content-type"), "application/problem+json");
  });
});

test("names, texts and files that mean harm are only text, and bounded, wherever they are shown", async () => {
  const place = new Place();
  const attack = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>[x](javascript:window.hacked=1) \u202egnp.exe";
  mkdirSync(join(place.path, "agents"));
  const quoted = JSON.stringify(attack);
  writeFileSync(join(place.path, "agents/odd.md"), `---\ndescription: ${quoted}\nkind: extractive\ntags: [${quoted}]\n---\n\n${attack}\n${"x".repeat(150_000)}\n`);
  await place.serve();
  try {
    const line = "word ".repeat(220_000);
    const messages = [{ role: "user", content: attack }, { role: "assistant", content: line }, { role: "user", content: `${attack}. Dropped?` }, { role: "assistant", content: "Yes." }];
    const { session } = await place.ask("POST", "/v1/sessions", { title: attack.slice(0, 60), messages });
    await place.ask("POST", `/v1/sessions/${session}/compactions`, { keep_messages: 1 });
    const page = await enter(browser, place);
    for (const path of ["/agents", "/agents/odd", "/agents/odd/edit", "/doctor", "/usage?by=session", `/sessions/${session}`, `/sessions/${session}/checkpoints/1/compare`, `/sessions/${session}/context`, `/${attack}`]) {
      const reply = await page.goto(place.address + (path.startsWith("/<") ? `/${encodeURIComponent(attack)}` : path));
      const size = (await reply.body()).length;
      assert.ok(size < 400_000, `${path} has ${size} bytes`);
      assert.equal(await page.evaluate(() => window.hacked), undefined, path);
      assert.equal(await page.locator("main img, main iframe, main [onerror], main script:not([src])").count(), 0, path);
      // A text area has the text of a file as it is: what is saved is what was there.
      const bad = await page.evaluate(() => {
        const shown = document.documentElement.cloneNode(true);
        for (const area of shown.querySelectorAll("textarea")) area.remove();
        return shown.outerHTML.includes("\u202e");
      });
      assert.equal(bad, false, path);
      const links = await page.locator("main a[href]").evaluateAll((all) => all.map((one) => new URL(one.getAttribute("href"), location.href).protocol));
      assert.ok(links.every((scheme) => ["http:", "https:", "mailto:"].includes(scheme)), String(links));
    }
    await page.goto(`${place.address}/sessions/${session}`);
    await page.keyboard.press("Control+k");
    await page.keyboard.type("session: <");
    await page.getByRole("option", { name: /^Session: / }).first().waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("dialog img, dialog script").count(), 0);
    assert.equal(await page.evaluate(() => document.documentElement.outerHTML.includes("\u202e")), false);
  } finally {
    await place.stop();
  }
});

test("a session of 10,000 messages is small on every page, and a live turn costs little and moves nothing", async () => {
  await withDaemon(new Place(), async (place) => {
    const messages = Array.from({ length: 10_000 }, (_, at) => ({
      role: at % 2 ? "assistant" : "user", content: `${at + 1}: The move is on **Friday**. ${"Nothing else is known. ".repeat(9)}`,
    }));
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Long", messages });
    const page = await enter(browser, place);
    for (const path of ["", "/history", "/context", "/tree", "/settings"]) {
      const reply = await page.goto(`${place.address}/sessions/${session}${path}`);
      const bytes = Number(reply.headers()["content-length"]);
      assert.ok(bytes > 0 && bytes <= 60 * 1024, `${path} is ${bytes} bytes`);
    }
    const client = await page.context().newCDPSession(page);
    await client.send("Network.enable");
    let transferred = 0;
    client.on("Network.loadingFinished", ({ encodedDataLength }) => { transferred += encodedDataLength; });
    await page.goto(`${place.address}/sessions/${session}`);
    await page.waitForLoadState("networkidle").catch(() => {});
    await page.evaluate(() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
      }).observe({ type: "layout-shift", buffered: true });
    });
    transferred = 0;
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is the move?", agents: ["facts", "risks"], wait: false });
    await page.locator(".turn .state.answered").waitFor();
    assert.ok(transferred > 0 && transferred <= 100 * 1024, `a live turn took ${transferred} bytes`);
    const shift = await page.evaluate(() => window.shift);
    assert.ok(shift <= 0.02, `the layout shifted by ${shift}`);
    // Another one, while somebody reads further up.
    await page.locator(".scroller").evaluate((pane) => { pane.scrollTop = -pane.scrollHeight / 2; });
    const above = await page.locator(".scroller").evaluate((pane) => pane.scrollTop);
    await page.evaluate(() => new Promise((done) => setTimeout(done, 600)));
    await page.evaluate(() => { window.shift = 0; });
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "And who moves?", agents: ["facts", "risks"], wait: false });
    await page.waitForFunction(() => document.querySelectorAll(".turn .state.answered").length === 2);
    const again = await page.evaluate(() => window.shift);
    assert.ok(again <= 0.02, `the layout shifted by ${again}, scrolled to ${above}`);
    if (process.env.UNISONO_SHOTS) console.log(`live turn: ${transferred} bytes, layout shift ${shift}`);
    assert.deepEqual(page.faults, []);
  });
});

// Forms take what was typed, keep it until it was sent, and say why it was not.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { browser as launch, enter, shot } from "./browser.mjs";
import { Place, example, withDaemon } from "./place.mjs";
import { model, settings } from "./tools.mjs";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

const said = (count, text = "The move is on Friday.") =>
  Array.from({ length: count }, (_, at) => ({ role: at % 2 ? "assistant" : "user", content: `${at + 1}: ${text}` }));

test("a compaction keeps the number of messages that was typed, and what else was written", async () => {
  for (const javaScriptEnabled of [true, false]) {
    const place = new Place();
    const { session } = place.call("import", example);
    await place.serve();
    try {
      const page = await enter(browser, place, { javaScriptEnabled });
      const home = `${place.address}/sessions/${session}`;
      await page.goto(home);
      await page.getByRole("link", { name: "Compact …" }).click();
      const form = javaScriptEnabled ? page.getByRole("dialog") : page.locator("main");
      await form.getByLabel(/Newest messages that stay/).fill("40");
      await form.getByLabel(/What the summary must keep/).fill("All dates.");
      await form.getByRole("button", { name: "Show the numbers for that" }).click();
      await form.getByLabel(/Newest messages that stay/).and(page.locator("[value='40']")).waitFor();
      assert.equal(await form.getByLabel(/What the summary must keep/).inputValue(), "All dates.");
      // Typed anew, without another look at the numbers.
      await form.getByLabel(/Newest messages that stay/).fill("7");
      await shot(page, "compact-typed", false);
      await form.getByRole("button", { name: "Compact", exact: true }).click();
      const done = page.getByRole("heading", { name: "The context was compacted" });
      for (let tries = 0; !javaScriptEnabled && tries < 100 && (await done.count()) === 0; tries++) await page.reload();
      await done.waitFor();
      const { messages } = await place.ask("GET", `/v1/sessions/${session}/context`);
      assert.equal(messages.length, 7);
    } finally {
      await place.stop();
    }
  }
});

test("a part is compacted whole: a number of messages that stay is not ignored beside it", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Part", messages: said(12) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}/compact?part=attention&keep=3`);
    await page.getByText("a part is compacted whole").waitFor();
  });
});

test("a task that was not sent is kept, over a reload and while the daemon is away, and said so", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Kept", messages: said(2) });
    const page = await enter(browser, place);
    const home = `${place.address}/sessions/${session}`;
    await page.goto(home);
    const task = page.getByLabel("Task", { exact: true });
    await task.fill("When is it?");
    await page.getByRole("checkbox", { name: "facts" }).uncheck();
    await page.reload();
    await page.getByText("Not sent yet.").waitFor();
    assert.equal(await task.inputValue(), "When is it?");
    assert.equal(await page.getByRole("checkbox", { name: "facts" }).isChecked(), false);
    // A pin leads to another page, and back.
    await page.locator("#m1").getByText("Fork, pin").click();
    await page.locator("#m1").getByRole("button", { name: /Pin/ }).click();
    await page.waitForURL(/history/);
    await page.goto(home);
    assert.equal(await task.inputValue(), "When is it?");
    await place.halt();
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.getByText("Not sent: the daemon does not answer.").waitFor();
    await shot(page, "not-sent", false);
    assert.equal(await task.inputValue(), "When is it?");
    assert.equal(page.url(), home);
    await place.serve();
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.locator(".turn").getByRole("link", { name: "When is it?" }).waitFor();
    assert.equal(await task.inputValue(), "");
    assert.equal(await page.getByText(/Not sent/).count(), 0);
    await page.reload();
    assert.equal(await task.inputValue(), "");
    const { items } = await place.ask("GET", `/v1/sessions/${session}/turns`);
    assert.equal(items.length, 1);
  });
});

test("an agent that the text names is asked, and the form names the lead that is chosen", async () => {
  for (const javaScriptEnabled of [true, false]) {
    await withDaemon(new Place(), async (place) => {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Named", messages: said(2) });
      const page = await enter(browser, place, { javaScriptEnabled });
      await page.goto(`${place.address}/sessions/${session}`);
      for (const agent of ["actions", "decisions", "facts", "risks"]) await page.getByRole("checkbox", { name: agent }).uncheck();
      await page.getByText("Tasks of their own, another lead").click();
      await page.getByLabel("Lead", { exact: true }).selectOption("decisions");
      const button = page.getByRole("button", { name: /^Ask/ });
      if (javaScriptEnabled) assert.equal(await button.textContent(), "Ask decisions");
      await page.getByLabel("Task", { exact: true }).fill("@facts, when is it?");
      if (javaScriptEnabled) assert.equal(await page.getByRole("checkbox", { name: "facts" }).isChecked(), true);
      await button.click();
      await page.locator(".turn").getByRole("link", { name: "@facts, when is it?" }).waitFor();
      const turns = async () => (await place.ask("GET", `/v1/sessions/${session}/turns`)).items;
      for (let tries = 0; tries < 200 && !(await turns())[0].ended_at; tries++) await page.waitForTimeout(50);
      const { runs } = (await turns())[0];
      assert.deepEqual(runs.map((run) => run.agent).sort(), ["decisions", "facts"]);
    });
  }
});

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

test("a failed turn is asked again with its task and attachments", async () => {
  await withDaemon(new Place('[models]\ndefault = "openai/gpt-4o"\n[providers.openai]\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "TEST_KEY"\nattempts = 1\n'), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Fails", messages: said(2) });
    const attachments = [{ filename: "plan of May.png", data: png }];
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When is it?", agents: ["facts"], attachments, wait: true });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator(".turn").getByRole("button", { name: "Ask again" }).click();
    await page.waitForURL(/sessions/);
    const { items } = await place.ask("GET", `/v1/sessions/${session}/turns`);
    assert.deepEqual(items.map((turn) => turn.task), ["When is it?", "When is it?"]);
    const [first, second] = items.map((turn) => turn.attachments);
    assert.equal(first[0].filename, "plan of May.png");
    assert.deepEqual(second, first);
  });
});

test("a double click sends a form once, and opens one dialog", async () => {
  await withDaemon(new Place(), async (place) => {
    const page = await enter(browser, place);
    let sent = 0;
    page.on("request", (request) => { if (request.method() === "POST") sent += 1; });
    await page.getByLabel("Title").fill("Twice?");
    await page.getByRole("button", { name: "Start", exact: true }).dblclick();
    await page.getByRole("heading", { name: "Twice?" }).waitFor();
    assert.equal(sent, 1);
    assert.equal((await place.ask("GET", "/v1/sessions")).items.length, 1);
    // On a link it opens one dialog.
    let asked = 0;
    page.on("request", (request) => { if (request.url().endsWith("/delete")) asked += 1; });
    await page.getByRole("navigation", { name: "Session" }).getByRole("link", { name: "Delete …" }).dblclick();
    await page.getByRole("dialog", { name: "Delete this session" }).waitFor();
    assert.equal(asked, 1);
  });
});

test("a dialog whose page does not come is opened as a page", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Silent", messages: said(2) });
    const page = await enter(browser, place);
    // It is given up soon.
    await page.addInitScript(() => {
      const timeout = AbortSignal.timeout.bind(AbortSignal);
      AbortSignal.timeout = () => timeout(1_000);
    });
    await page.goto(`${place.address}/sessions/${session}`);
    await page.route("**/delete", () => {}, { times: 1 });
    await page.getByRole("navigation", { name: "Session" }).getByRole("link", { name: "Delete …" }).click();
    await page.waitForURL(/\/delete$/);
    await page.getByRole("heading", { name: "Delete this session" }).waitFor();
  });
});

test("a refused form leads back, with what was typed", async () => {
  for (const javaScriptEnabled of [true, false]) {
    await withDaemon(new Place(), async (place) => {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Back", messages: said(2) });
      const page = await enter(browser, place, { javaScriptEnabled });
      const from = `${place.address}/sessions/${session}/history?from=1`;
      await page.goto(from);
      await page.locator("#m1").getByText("Fork, pin").click();
      await page.locator("#m1").getByLabel(/Name of the branch/).fill("main");
      await page.locator("#m1").getByRole("button", { name: "Fork" }).click();
      await page.getByText('there is a branch "main" already').waitFor();
      await shot(page, "refused", false);
      assert.equal(await page.getByLabel("name").inputValue(), "main");
      assert.equal(await page.getByRole("link", { name: "Back to where you were" }).evaluate((link) => link.href), from);
      await page.getByLabel("name").fill("other");
      await page.getByRole("button", { name: "Send again" }).click();
      await page.getByRole("navigation", { name: "Branches" }).getByText("other").waitFor();
    });
  }
});

test("who may not do something is told so where the control would be", async () => {
  const answers = await model();
  const place = await new Place(settings(answers.address)).serve();
  try {
    const { secret } = await place.ask("POST", "/v1/tokens", { name: "reader", scope: "read" });
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Letters", messages: said(2) });
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Tell them.", wait: false });
    place.bearer = secret;
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const call = page.locator("article[id^='call-']");
    await call.getByText("Approve: this needs the scope approve; yours is read.").waitFor();
    await shot(page, "reader", false);
    await page.locator("#composer").getByText("Ask clerk: this needs the scope ask; yours is read.").waitFor();
    // Nothing is shown that would be refused.
    assert.equal(await page.locator("main form[method=post]").count(), 0);
    const nav = page.getByRole("navigation", { name: "Main" });
    assert.equal(await nav.getByRole("link", { name: "Settings" }).count(), 0);
    assert.equal(await nav.getByRole("link", { name: "Agents" }).count(), 1);
    // A line that goes with the turn would move its runs.
    assert.equal(await page.locator(".turn header .lacks").first().isVisible(), false);
    // Neither does the palette offer it.
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Go to" });
    for (const [sought, offered] of [["Usage", 1], ["Settings", 0], ["Cluster", 0], ["This session: write", 0], ["Approve:", 0], ["Deny", 0]]) {
      await palette.getByRole("combobox").fill(sought);
      await palette.getByRole("option", { name: "Search all that was said" }).waitFor();
      const all = await palette.getByRole("option").allTextContents();
      const found = all.filter((says) => says.startsWith(sought));
      assert.ok(offered ? found.length >= offered : found.length === 0, `${sought}: ${found}`);
    }
    await page.keyboard.press("Escape");
    await page.goto(`${place.address}/import`);
    await page.getByText("this needs the scope ask; yours is read.").first().waitFor();
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    delete place.bearer;
    await place.stop();
    await answers.close();
  }
});

test("a session is deleted after a look at what goes", async () => {
  for (const javaScriptEnabled of [true, false]) {
    await withDaemon(new Place(), async (place) => {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Gone", messages: said(2) });
      await place.ask("POST", "/v1/sessions", { title: "Stays", messages: said(2) });
      const page = await enter(browser, place, { javaScriptEnabled });
      await page.goto(`${place.address}/sessions/${session}`);
      await page.getByRole("navigation", { name: "Session" }).getByRole("link", { name: "Delete …" }).click();
      await page.getByText("2 messages on 1 branch").waitFor();
      await shot(page, "delete", false);
      await page.getByRole("link", { name: "Keep it" }).click();
      await page.getByRole("navigation", { name: "Session" }).getByRole("link", { name: "Delete …" }).click();
      await page.getByRole("button", { name: "Delete this session" }).click();
      await page.getByRole("heading", { name: "Sessions" }).waitFor();
      await page.getByText("Stays").waitFor();
      assert.equal(await page.getByText("Gone").count(), 0);
    });
  }
});

test("each waiting call names its session, and an open page tells of a logout at once", async () => {
  const answers = await model();
  const place = await new Place(settings(answers.address)).serve();
  try {
    const { secret } = await place.ask("POST", "/v1/tokens", { name: "clerk", scope: "approve" });
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Letters", messages: said(2) });
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Tell them.", wait: false });
    place.bearer = secret;
    const page = await enter(browser, place);
    await page.goto(`${place.address}/approvals`);
    await page.getByRole("region", { name: "Letters" }).getByRole("link", { name: "Letters" }).click();
    await page.waitForURL(/sessions/);
    await page.waitForLoadState("networkidle").catch(() => {});
    // The stream ends at the logout; no other one answers.
    await page.route("**/events?*", (route) => route.abort());
    const other = await page.context().newPage();
    await other.goto(place.address);
    await other.getByRole("button", { name: "Log out" }).click();
    await page.locator("#link").getByText("signed out").waitFor();
    await page.context().close();
  } finally {
    delete place.bearer;
    await place.stop();
    await answers.close();
  }
});

test("a link on another site leads to the page in two clicks", async () => {
  const place = await new Place().serve();
  const other = createServer((request, reply) => {
    reply.writeHead(200, { "Content-Type": "text/html" });
    reply.end(`<a href="${place.address}/usage?by=model">the usage</a> <a href="${place.address}/usage#main">a part</a>`);
  });
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  try {
    const page = await enter(browser, place);
    // The browser sends no cookie there: it is another site.
    await page.goto(`http://localhost:${other.address().port}/`);
    await page.getByRole("link", { name: "the usage" }).click();
    await page.getByRole("heading", { name: "You are not logged in" }).waitFor();
    await page.getByRole("link", { name: "open this page again" }).click();
    await page.getByRole("heading", { name: "Usage", exact: true }).waitFor();
    assert.equal(page.url(), `${place.address}/usage?by=model`);
    // So it does to a part of it.
    await page.goto(`http://localhost:${other.address().port}/`);
    await page.getByRole("link", { name: "a part" }).click();
    await page.locator("main a[href$='#main']").waitFor();
    await page.getByRole("link", { name: "open this page again" }).click();
    await page.getByRole("heading", { name: "Usage", exact: true }).waitFor();
    assert.equal(new URL(page.url()).hash, "#main");
  } finally {
    await place.stop();
    other.close();
    other.closeAllConnections();
  }
});

test("the head of a named token is one row, and a key opens no page that the token may not open", async () => {
  const place = await new Place().serve();
  try {
    const { secret } = await place.ask("POST", "/v1/tokens", { name: "clerk", scope: "ask" });
    for (const [bearer, opens] of [[secret, false], [undefined, true]]) {
      place.bearer = bearer;
      const page = await enter(browser, place, { viewport: { width: 1280, height: 800 } });
      const { height } = await page.locator("header.top").boundingBox();
      assert.ok(height < 60, `the head is ${height} px high`);
      await page.keyboard.press("?");
      const list = page.getByRole("dialog", { name: "Keys" });
      await list.getByText("g u", { exact: true }).waitFor();
      assert.equal(await list.getByText("g t", { exact: true }).count(), opens ? 1 : 0);
      await page.keyboard.press("Escape");
      await list.waitFor({ state: "detached" });
      await page.keyboard.type("gt");
      if (opens) await page.waitForURL(/settings/);
      // The next key still works.
      await page.keyboard.type("gu");
      await page.waitForURL(/usage/);
      assert.deepEqual(page.faults, []);
      await page.context().close();
    }
  } finally {
    delete place.bearer;
    await place.stop();
  }
});

test("on a phone the lead of a turn and all columns of the sessions are in sight", async () => {
  const place = new Place();
  const { session } = place.call("import", example);
  await place.serve();
  try {
    const long = "orders_and_payments_from_one_database_to_another";
    await place.ask("POST", "/v1/sessions", { title: long });
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "What is open?", agents: ["risks", "facts"] });
    const page = await enter(browser, place, { viewport: { width: 375, height: 800 } });
    const isInSight = async (part) => {
      const { x, width } = await part.boundingBox();
      assert.ok(x >= 0 && x + width <= 375, `${await part.textContent()}: ${x} + ${width}`);
    };
    await page.goto(`${place.address}/`);
    const row = page.getByRole("group", { name: "Sessions" }).getByRole("row").filter({ hasText: long });
    for (const cell of await row.getByRole("cell").all()) await isInSight(cell);
    await page.goto(`${place.address}/sessions/${session}/turns/${turn}`);
    for (const name of ["lead", "risks", "facts"]) await isInSight(page.locator(".fan .node", { hasText: name }));
  } finally {
    await place.stop();
  }
});

test("on a phone no field has letters so small that the browser zooms in on it", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Fields", messages: said(2) });
    const page = await enter(browser, place, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    for (const path of [`/sessions/${session}`, "/usage"]) {
      await page.goto(place.address + path);
      const fields = page.locator("input:visible, textarea:visible, select:visible");
      const sizes = await fields.evaluateAll((all) => all.map((field) => Number.parseFloat(getComputedStyle(field).fontSize)));
      assert.ok(sizes.length > 3 && sizes.every((size) => size >= 16), `${path}: ${sizes}`);
    }
  });
});

test("the kinds of the context differ, also in forced colours", async () => {
  const place = new Place();
  const { session } = place.call("import", example);
  await place.serve();
  try {
    for (const options of [{}, { colorScheme: "dark" }, { forcedColors: "active" }, { viewport: { width: 390, height: 844 } }]) {
      const page = await enter(browser, place, options);
      await page.goto(`${place.address}/sessions/${session}`);
      const kinds = ["system", "skills", "tools", "checkpoint", "user", "assistant", "tool", "pinned", "short"];
      const looks = await page.evaluate((kinds) => kinds.map((kind) => {
        const texture = { skills: "dots", tools: "rising", checkpoint: "level", assistant: "falling", tool: "upright", pinned: "cross", short: "grid" }[kind] ?? "";
        const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        rect.setAttribute("class", kind);
        document.querySelector("svg.parts").append(rect);
        return `${getComputedStyle(rect).fill} ${texture}`;
      }), kinds);
      assert.equal(new Set(looks).size, kinds.length, looks.join(", "));
      const drawn = await page.locator("svg.parts a").first().locator("rect:not(.over)").count();
      assert.ok(drawn >= 1);
      // 159 messages are drawn in groups: each has the roles of all its messages.
      const roles = await page.locator("svg.parts a").evaluateAll((all) => all.map((part) => part.querySelectorAll("rect:not(.over)").length));
      assert.ok(roles.some((count) => count > 1), roles.join(" "));
      await shot(page, `kinds-${JSON.stringify(options).replaceAll(/[^a-z0-9]+/gi, "-")}`, false);
      await page.context().close();
    }
  } finally {
    await place.stop();
  }
});

test("the kinds of the other pictures differ, in each theme and in forced colours", async () => {
  await withDaemon(new Place(), async (place) => {
    const pictures = {
      timeline: ["queue", "preparation", "compaction", "cache", "model", "tool", "person", "delegates", "retry", "other"],
      instants: ["first", "frozen"],
      history: ["checkpoint", "user", "short", "before", "frozen"],
      usage: ["cached", "fresh", "out"],
      budgets: ["room", "spent", "reserved"],
      occupancy: ["used", "room", "reserve", "pending"],
    };
    for (const options of [{ colorScheme: "light" }, { colorScheme: "dark" }, { forcedColors: "active" }, { forcedColors: "active", colorScheme: "dark" }]) {
      const page = await enter(browser, place, options);
      const { looks, ground } = await page.evaluate((pictures) => {
        const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        document.body.append(svg);
        const look = (kind) => {
          const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
          rect.setAttribute("class", kind);
          svg.append(rect);
          const swatch = document.createElement("span");
          swatch.className = `swatch ${kind}`;
          document.body.append(swatch);
          const { fill, stroke, strokeWidth, strokeDasharray } = getComputedStyle(rect);
          const { backgroundColor, borderTopStyle, borderTopWidth, borderTopColor } = getComputedStyle(swatch);
          return { fill, edge: `${stroke} ${strokeWidth} ${strokeDasharray}`, stroke, swatch: `${backgroundColor} ${borderTopStyle} ${borderTopWidth} ${borderTopColor}` };
        };
        const looks = Object.entries(pictures).map(([picture, kinds]) => [picture, kinds.map((kind) => [kind, look(kind)])]);
        return { looks, ground: getComputedStyle(document.body).backgroundColor };
      }, pictures);
      const form = JSON.stringify(options);
      for (const [picture, kinds] of looks) {
        const drawn = kinds.map(([, { fill, edge }]) => `${fill} ${edge}`);
        assert.equal(new Set(drawn).size, kinds.length, `${form} ${picture}: ${drawn.join(", ")}`);
        // Budgets have no legend.
        if (picture !== "budgets") {
          const swatches = kinds.map(([, { swatch }]) => swatch);
          assert.equal(new Set(swatches).size, kinds.length, `${form} ${picture}: ${swatches.join(", ")}`);
        }
        for (const [kind, { fill, stroke }] of kinds) {
          const blank = (colour) => colour === ground || colour === "none";
          assert.ok(!blank(fill) || !blank(stroke), `${form} ${kind}: ${fill}, ${stroke} on ${ground}`);
        }
      }
      await page.context().close();
    }
  });
});

test("several files are imported at once, and each says what became of it", async () => {
  for (const javaScriptEnabled of [true, false]) {
    await withDaemon(new Place(), async (place) => {
      const page = await enter(browser, place, { javaScriptEnabled });
      await page.goto(`${place.address}/import`);
      const file = (name, lines) => ({ name, mimeType: "application/json", buffer: Buffer.from(lines.join("\n")) });
      const line = (text) => JSON.stringify({ role: "user", content: text });
      await page.getByLabel("Files").setInputFiles([
        file("one.jsonl", [line("First."), line("Second.")]),
        file("bad.jsonl", [line("Good."), '{"role": 7}']),
        file("two.jsonl", [line("Third.")]),
      ]);
      await page.getByRole("button", { name: "Import", exact: true }).click();
      await page.getByRole("heading", { name: "Imported 2 of 3 files" }).waitFor();
      await page.getByRole("listitem").filter({ hasText: "bad.jsonl" }).getByText(/not imported\. .*2:\d/s).waitFor();
      await shot(page, "imported-several", false);
      await page.getByRole("listitem").filter({ hasText: "two.jsonl" }).getByRole("link").click();
      await page.locator(".message").getByText("Third.").waitFor();
      assert.equal((await place.ask("GET", "/v1/sessions")).items.length, 2);
    });
  }
});

test("of a file with several conversations some are selected, and one is imported once", async () => {
  for (const javaScriptEnabled of [true, false]) {
    await withDaemon(new Place(), async (place) => {
      const page = await enter(browser, place, { javaScriptEnabled });
      const chat = (id, title, text) => ({ id, title, conversations: [{ from: "human", value: text }, { from: "gpt", value: "Yes." }] });
      const chats = [chat("a", "Harbour", "Is it open?"), chat("b", "Winter <b>", "Is it cold?"), chat("c", "Spring", "Is it warm?")];
      const file = (name, value) => ({ name, mimeType: "application/json", buffer: Buffer.from(JSON.stringify(value)) });
      const several = file("chats.json", chats);
      const list = page.getByRole("group", { name: "The file has 3 conversations" });
      // A browser without scripts forgets the file: it is chosen again.
      const again = async () => {
        if (!javaScriptEnabled) await page.getByLabel("Files").setInputFiles(several);
      };
      await page.goto(`${place.address}/import`);
      await page.getByLabel("Files").setInputFiles(several);
      await page.getByRole("button", { name: "Import", exact: true }).click();
      // Without a selection the list is there again.
      await again();
      await page.getByRole("button", { name: "Import the selected" }).click();
      await page.locator("#refused").getByText("No conversation is selected").waitFor();
      await list.getByLabel("Winter <b>").check();
      await shot(page, "import-list", false);
      await again();
      await page.getByRole("button", { name: "Import the selected" }).click();
      await page.locator(".message").getByText("Is it cold?").waitFor();
      // What is there is marked, and left out of all.
      await page.goto(`${place.address}/import`);
      await page.getByLabel("Files").setInputFiles(several);
      await page.getByRole("button", { name: "Import", exact: true }).click();
      await list.getByRole("row").filter({ hasText: "Winter" }).getByRole("link", { name: "imported" }).waitFor();
      assert.equal(await list.getByRole("link", { name: "imported" }).count(), 1);
      await again();
      await page.getByRole("button", { name: "Import all 3" }).click();
      await page.getByRole("heading", { name: "Imported 2 of 3 conversations" }).waitFor();
      await page.getByRole("listitem").filter({ hasText: "imported before" }).getByRole("link", { name: "Winter" }).waitFor();
      assert.equal((await place.ask("GET", "/v1/sessions")).items.length, 3);
      // Nothing is selected of files that are imported whole.
      await page.goto(`${place.address}/import`);
      const others = [chat("d", "Fog", "Is it thick?"), chat("e", "Ice", "Is it thin?")];
      await page.getByLabel("Files").setInputFiles([several, file("others.json", others)]);
      await page.getByLabel("Import all conversations of a file").check();
      await page.getByRole("button", { name: "Import", exact: true }).click();
      await page.getByRole("listitem").filter({ hasText: "others.json" }).getByRole("link", { name: "Fog" }).waitFor();
      assert.equal((await place.ask("GET", "/v1/sessions")).items.length, 5);
      // One conversation: it is said where it is, and imported again on request.
      const one = file("one.json", chats[0].conversations.map(({ value }) => ({ role: "user", content: value })));
      for (const copy of [false, false, true]) {
        await page.goto(`${place.address}/import`);
        await page.getByLabel("Files").setInputFiles(one);
        if (copy) await page.getByLabel("Import again").check();
        await page.getByRole("button", { name: "Import", exact: true }).click();
        await page.locator(".message, #known").first().waitFor();
      }
      assert.equal((await place.ask("GET", "/v1/sessions")).items.length, 7);
      assert.deepEqual(page.faults, []);
    });
  }
});

test("an import that does not reach the daemon is said, and the file stays chosen", async () => {
  await withDaemon(new Place("[server]\nbody_limit_bytes = 65536\n"), async (place) => {
    const page = await enter(browser, place);
    await page.goto(`${place.address}/import`);
    const file = (bytes) => ({ name: "talk.jsonl", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ role: "user", content: "x".repeat(bytes) })) });
    await page.getByLabel("Files").setInputFiles(file(1_000_000));
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await page.getByText(/too large|larger than/).first().waitFor();
    await page.goto(`${place.address}/import`);
    await page.getByLabel("Files").setInputFiles(file(10));
    await place.halt();
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await page.getByText("Not imported: the connection ended.").waitFor();
    assert.equal(await page.getByLabel("Files").evaluate((field) => field.files.length), 1);
  });
});

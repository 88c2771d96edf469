// The page in a real browser: by hand, by keyboard, without scripts, narrow, dark, disconnected.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { browser as launch, enter, shifting, shot } from "./browser.mjs";
import { Place, example } from "./place.mjs";
import { model, settings } from "./tools.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;
let place;
let id;

before(async () => {
  browser = await launch();
  place = new Place();
  id = place.call("import", example).session;
  await place.serve();
  const turn = { task: "What could still go wrong?", agents: ["risks", "facts"] };
  await place.ask("POST", `/v1/sessions/${id}/turns`, turn);
});

after(async () => {
  await place?.stop();
  await browser?.close();
});

test("a link works once, and only a browser that came by one sees anything", async () => {
  const page = await enter(browser, place);
  await page.getByRole("heading", { name: "Sessions" }).waitFor();
  const cookies = await page.context().cookies();
  assert.ok(cookies[0].httpOnly && cookies[0].sameSite === "Strict");
  assert.equal(await page.evaluate(() => document.cookie), "");
  const stranger = await browser.newPage();
  const reply = await stranger.goto(place.address);
  assert.equal(reply.status(), 401);
  await stranger.getByText("You are not logged in").waitFor();
  await shot(stranger, "not-logged-in");
  await stranger.close();
  await page.context().close();
});

test("by keyboard: a conversation is started, asked, and its turn followed live", async () => {
  const empty = await new Place().serve();
  try {
    const page = await enter(browser, empty);
    await page.getByText("There is no conversation yet").waitFor();
    await shot(page, "empty");
    // The first stop leads past the navigation to the content.
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.getByLabel("Title").focus();
    await page.keyboard.type("A <b>move</b>");
    await page.keyboard.press("Tab");
    await page.keyboard.type("Be brief.");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "A <b>move</b>" }).waitFor();
    await page.getByText("There are no turns yet.").waitFor();
    await page.getByLabel("Task").focus();
    await page.keyboard.type("The move is on Friday 6 March. When is the move?");
    for (const agent of ["actions", "decisions", "risks"]) {
      await page.getByRole("checkbox", { name: agent }).focus();
      await page.keyboard.press("Space");
    }
    await page.getByRole("checkbox", { name: "facts" }).focus();
    await page.keyboard.press("Enter");
    // Nothing is reloaded by hand.
    await page.locator(".turn .state.answered").waitFor();
    await page.getByText("identical for 2 agents").waitFor();
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await empty.stop();
  }
});

test("a running turn shows who works, and what a person writes meanwhile stays", async () => {
  const waiting = new Place();
  const [started, word] = ["started", "word"].map((name) => join(waiting.path, name));
  execFileSync("mkfifo", [started, word]);
  const script = `echo x > '${started}'; read -r w < '${word}'; echo "The word is $w."`;
  const agent = `[agents.waits]\ndescription = "Test"\nkind = "command"\ncommand = "sh"\nargs = ["-c", ${JSON.stringify(script)}]\n`;
  writeFileSync(join(waiting.path, "config/unisono.toml"), agent);
  await waiting.serve();
  try {
    const made = await waiting.ask("POST", "/v1/sessions", {
      title: "Waiting", messages: [{ role: "user", content: "Hello." }],
    });
    const page = await enter(browser, waiting);
    await page.goto(`${waiting.address}/sessions/${made.session}`);
    await page.evaluate(() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
      }).observe({ type: "layout-shift", buffered: true });
    });
    const task = { task: "Which word?", agents: ["waits"], wait: false };
    await waiting.ask("POST", `/v1/sessions/${made.session}/turns`, task);
    await page.locator(".runs .state.running").first().waitFor();
    await page.locator(".runs [data-since]").first().getByText(/^\d+ s$/).waitFor();
    await shot(page, "running");
    await page.getByLabel("Task").fill("Half of a");
    // The estimate that comes later moves nothing either.
    await page.locator("#estimate p").first().waitFor();
    execFileSync("cat", [started]);
    writeFileSync(word, "unison\n");
    await page.locator(".turn .state.answered").waitFor();
    assert.equal(await page.getByLabel("Task").inputValue(), "Half of a");
    // A good layout shift is below 0.1 (web.dev/articles/cls).
    assert.ok((await page.evaluate(() => window.shift)) < 0.05);
    await page.getByText("The word is unison.").first().waitFor();
    // A turn that nobody wants any more.
    const other = { task: "Which word again?", agents: ["waits"], wait: false };
    await waiting.ask("POST", `/v1/sessions/${made.session}/turns`, other);
    execFileSync("cat", [started]);
    const last = page.locator(".turn").first();
    await last.getByRole("link", { name: "Which word again?" }).waitFor();
    await last.getByRole("button", { name: "Cancel" }).click();
    await page.locator(".turn").first().locator("header .state.cancelled").waitFor();
    await page.getByRole("button", { name: "Seal the current topic" }).click();
    await page.getByText("ended by").first().waitFor();
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await waiting.stop();
  }
});

test("a call waits until a person has answered it, once", async () => {
  const answers = await model();
  const asking = await new Place(settings(answers.address)).serve();
  try {
    const made = await asking.ask("POST", "/v1/sessions", {
      title: "Letters", messages: [{ role: "user", content: "We move on Friday." }],
    });
    const page = await enter(browser, asking);
    // A page of something else says in its head how many calls wait.
    const idle = await page.context().newPage();
    await idle.goto(`${asking.address}/usage`);
    const counts = async (open, name) => {
      await open.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
      await open.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true }).waitFor();
    };
    await counts(idle, "Approvals");
    const shift = await shifting(idle);
    await page.goto(`${asking.address}/approvals`);
    await page.getByText("No call waits for you").waitFor();
    const task = { task: "Tell the landlord.", wait: false };
    await asking.ask("POST", `/v1/sessions/${made.session}/turns`, task);
    // The list comes up to date by itself.
    const card = page.getByRole("article", { name: /clerk asks to call mail__send/ });
    await card.getByText("We <b>move</b> on Friday.").waitFor();
    for (const open of [page, idle]) await counts(open, "Approvals 1 waiting");
    assert.equal(await shift(), 0, await shift.moved());
    await shot(page, "approvals");
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
    assert.deepEqual(violations.map(({ id }) => id), []);
    // Enter alone answers nothing.
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Go to" });
    await palette.getByRole("option", { name: "Sessions", exact: true, selected: true }).waitFor();
    await page.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });
    await shot(idle, "waiting-elsewhere");
    const other = await page.context().newPage();
    await other.goto(`${asking.address}/sessions/${made.session}`);
    await other.getByRole("heading", { name: "Waiting for you" }).waitFor();
    await shot(other, "session-waiting");
    await page.getByText("Deny …").click();
    await page.getByLabel(/Why, for the model/).fill("The landlord knows.");
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByText("No call waits for you").waitFor();
    for (const open of [page, idle]) await counts(open, "Approvals");
    // The session's own page follows; whoever answers second is told so.
    await other.locator(".turn .state.answered").waitFor();
    await other.locator(".message").getByText(/They said: The landlord knows/).waitFor();

    await asking.ask("POST", `/v1/sessions/${made.session}/turns`, task);
    await other.getByRole("button", { name: "Approve" }).waitFor();
    assert.equal(await other.locator("#said").textContent(), "A call waits for you.");
    await page.goto(`${asking.address}/approvals`);
    await page.getByRole("button", { name: "Approve" }).click();
    await page.getByText("No call waits for you").waitFor();
    await other.locator(".message").getByText(/Told: sent: We <b>move<\/b> on Friday/).waitFor();
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await asking.stop();
    await answers.close();
  }
});

test("compacting: numbers, progress, result; then the summary is edited and restored", async () => {
  const page = await enter(browser, place);
  await page.goto(`${place.address}/sessions/${id}`);
  await page.getByRole("link", { name: "Compact …" }).click();
  const dialog = page.getByRole("dialog", { name: /Compact branch main/ });
  await dialog.getByText("Tokens now").waitFor();
  await shot(page, "compact-dialog", false);
  await dialog.getByLabel(/Newest messages that stay/).fill("6");
  await dialog.getByRole("button", { name: "Show the numbers for that" }).click();
  await page.getByRole("dialog").getByLabel(/Newest messages that stay/).and(page.locator("[value='6']")).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Compact …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Compact" }).click();
  await page.getByRole("heading", { name: "The context was compacted" }).waitFor();
  await page.getByText(/tokens, [\d,]+ saved|→ [\d,]+ tokens/).first().waitFor();
  await shot(page, "compacted");

  await page.getByRole("link", { name: "Back to the conversation" }).click();
  const card = page.locator(".made", { hasText: "Checkpoint 1" });
  await card.locator("summary").first().click();
  await card.getByRole("link", { name: /View, edit/ }).click();
  const checkpoint = page.getByRole("dialog", { name: "Checkpoint 1" });
  await checkpoint.getByText("Edit", { exact: true }).click();
  await shot(page, "checkpoint-dialog", false);
  await checkpoint.getByLabel(/The text in its place/).fill("The orders move on Friday.");
  await checkpoint.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "The context was compacted" }).waitFor();

  for (const number of [2, 1]) {
    // Two clicks: what it would do, and that it is to be done.
    await page.goto(`${place.address}/sessions/${id}`);
    await page.locator(".made", { hasText: `Checkpoint ${number}` }).getByRole("link", { name: "Undo …" }).click();
    // Checkpoint 2 is an edit of checkpoint 1.
    const returns = number === 2 ? "Return to checkpoint 1" : /Restore [\d,]+ messages/;
    await page.getByRole("dialog").getByRole("button", { name: returns }).click();
    await page.getByRole("heading", { name: "The checkpoint was reverted" }).waitFor();
  }
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("where no model writes a summary, a person tries again, takes quotes or leaves it", async () => {
  const answers = await model();
  const failing = new Place(settings(answers.address));
  const talk = failing.call("import", example).session;
  await failing.serve();
  try {
    const page = await enter(browser, failing);
    const home = `${failing.address}/sessions/${talk}`;
    const failed = () => page.getByRole("heading", { name: "Nothing was changed" }).waitFor();
    const changed = () => page.getByRole("heading", { name: "The context was compacted" }).waitFor();
    await page.goto(home);
    await page.getByRole("link", { name: "Compact …" }).click();
    const dialog = page.getByRole("dialog");
    // This model only ever calls tools.
    await dialog.getByLabel(/Model: provider/).fill("openai/gpt-4o");
    await dialog.getByRole("button", { name: "Compact" }).click();
    await failed();
    await shot(page, "compaction-failed");
    assert.equal(await page.getByLabel(/Model: provider/).inputValue(), "openai/gpt-4o");
    const first = page.url();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.waitForURL((url) => url.href !== first);
    await failed();
    await page.getByRole("button", { name: "Take quotes" }).click();
    await changed();

    // The same for a summary that is to be regenerated.
    await page.goto(`${home}/checkpoints/1`);
    await page.getByText("Regenerate", { exact: true }).first().click();
    await page.getByLabel(/What the summary must keep/).fill("All dates.");
    await page.getByLabel(/Model: provider/).fill("openai/gpt-4o");
    await page.getByLabel(/If no model writes a usable/).selectOption("leave");
    await page.getByRole("button", { name: "Regenerate" }).click();
    await failed();
    await page.getByRole("link", { name: "Leave it as it is" }).click();
    await page.locator("details.summary", { hasText: "Checkpoint 1" }).waitFor();
    await page.goBack();
    await page.getByLabel(/Model: provider/).fill("extractive");
    await page.getByRole("button", { name: "Try again" }).click();
    await changed();
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await failing.stop();
    await answers.close();
  }
});

test("the history is searched, a message pinned, a branch forked, the tree drawn", async () => {
  await place.ask("POST", `/v1/sessions/${id}/compactions`, {});
  const page = await enter(browser, place);
  await page.goto(`${place.address}/sessions/${id}/history`);
  await page.getByRole("searchbox").fill("replica");
  await page.keyboard.press("Enter");
  await page.getByText(/\d+ found/).waitFor();
  assert.ok((await page.locator("mark").count()) > 0);
  assert.ok((await page.getByText("not in the context: checkpoint").count()) > 0);
  await shot(page, "found");
  await page.goto(`${place.address}/sessions/${id}/history?from=1`);
  const second = page.locator("#m2");
  assert.ok(await second.getByText("not in the context").isVisible());
  await second.getByText("Fork, pin").click();
  await second.getByRole("button", { name: /Pin/ }).click();
  await page.locator("#m2").getByText("pinned").waitFor();
  await page.locator("#m2").getByText("Fork, pin").click();
  await page.locator("#m2").getByLabel(/Name of the branch/).fill("what if");
  await page.locator("#m2").getByRole("button", { name: "Fork" }).click();
  await page.getByRole("navigation", { name: "Branches" }).getByText("what if").waitFor();
  const branches = (await place.ask("GET", `/v1/sessions/${id}`)).branches;
  await page.goto(`${place.address}/sessions/${id}/history?from=1`);
  await page.locator("#m1").getByText("Fork, pin").click();
  await page.locator("#m1").getByLabel(/Name of the branch/).fill("main");
  await page.locator("#m1").getByRole("button", { name: "Fork" }).click();
  await page.getByText('there is a branch "main" already').waitFor();
  const after = (await place.ask("GET", `/v1/sessions/${id}`)).branches;
  assert.deepEqual(after, branches, "no branch was moved");
  page.faults.length = 0; // The refusal is one.
  await page.goto(`${place.address}/sessions/${id}`);
  await page.getByRole("link", { name: "Branch tree" }).click();
  await page.locator(".tree").getByText("what if").waitFor();
  await shot(page, "tree");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("a run shows the exact bytes it was sent, beside a sibling's", async () => {
  const page = await enter(browser, place);
  await page.goto(place.address + (await pages()).turn);
  await page.locator(".runs").getByRole("link", { name: "risks" }).click();
  await page.getByText("These are the bytes that were sent").waitFor();
  await page.getByRole("navigation", { name: "Siblings" }).getByRole("link", { name: "facts" }).click();
  await page.getByText(/bytes are the same as of facts's request/).waitFor();
  // Whole lines of each: nothing begins within a word.
  await page.locator(".diff .own del").getByText(/"id":"risks"/).waitFor();
  await page.locator(".diff .theirs ins").getByText(/"id":"facts"/).waitFor();
  await shot(page, "run");
  await page.locator("dl").getByRole("link").first().click();
  await page.getByText("identical for 3 agents").waitFor();
  await page.goto(`${place.address}/usage`);
  await page.getByRole("heading", { name: "By session" }).waitFor();
  await shot(page, "usage");
  await page.goto(`${place.address}/settings`);
  await page.getByText("compaction.preset").first().waitFor();
  await page.getByLabel("Change turn.timeout_seconds").click();
  const field = page.locator("[id='turn.timeout_seconds']");
  await field.fill("many");
  await page.keyboard.press("Enter");
  // Refused before it is confirmed, by the check of the save itself.
  await page.getByText("the request is refused").waitFor();
  assert.equal(await page.getByRole("button", { name: "Save" }).count(), 0);
  assert.equal(await page.getByLabel("value").inputValue(), "many");
  await page.goto(`${place.address}/settings`);
  await page.getByLabel("Change turn.timeout_seconds").click();
  await field.fill("90");
  await page.keyboard.press("Enter");
  // Old and new, what the key means, and when it applies, before anything is saved.
  await page.getByRole("heading", { name: "Change turn.timeout_seconds" }).waitFor();
  await page.locator("dd", { hasText: /^\d+ defaults/ }).waitFor();
  await page.locator("dd", { hasText: /^90$/ }).waitFor();
  await page.getByText("turns that begin after the change").waitFor();
  assert.ok((await page.locator("dt", { hasText: "Meaning" }).count()) === 1);
  await shot(page, "change-setting");
  await page.getByRole("button", { name: "Save" }).click();
  const row = page.getByRole("row", { name: /turn.timeout_seconds/ });
  await row.getByText("settings.toml").waitFor();
  await shot(page, "settings");
  await page.getByLabel("Change turn.timeout_seconds").click();
  await page.getByRole("button", { name: "As in the settings files again" }).click();
  await row.getByText("defaults").waitFor();
  await page.getByText("Set another key").click();
  await page.locator("#another-key").selectOption("compaction.trigger_tokens");
  await page.locator("#another-value").fill("90000");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("row", { name: /compaction.trigger_tokens/ }).getByText("settings.toml").waitFor();
  await page.goto(`${place.address}/sessions/${id}`);
  await page.getByRole("navigation", { name: "Session" }).getByRole("link", { name: "Settings" }).click();
  const own = page.getByRole("row", { name: /compaction.notice/ });
  await page.getByLabel("Change compaction.notice").click();
  await page.locator("[id='compaction.notice']").fill("perhaps");
  await page.keyboard.press("Enter");
  await page.getByText("the request is refused").waitFor();
  await page.goto(`${place.address}/sessions/${id}/settings`);
  await page.getByLabel("Change compaction.notice").click();
  await page.locator("[id='compaction.notice']").fill("off");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Save" }).click();
  await own.getByText("session", { exact: true }).waitFor();
  await shot(page, "session-settings");
  await page.getByLabel("Change compaction.notice").click();
  await page.getByRole("button", { name: "As for all sessions again" }).click();
  await own.getByText("defaults").waitFor();
  await page.goto(`${place.address}/sessions/${id}/runs/${id}`);
  await page.getByText("there is no run").waitFor();
  await shot(page, "no-such-run");
  await page.context().close();
});

test("without scripts everything works but live updates", async () => {
  const page = await enter(browser, place, { javaScriptEnabled: false });
  await page.goto(`${place.address}/sessions/${id}`);
  await page.getByRole("link", { name: "Compact …" }).click();
  await page.getByRole("heading", { name: /Compact branch/ }).waitFor();
  await page.getByRole("link", { name: "Leave it as it is" }).click();
  await page.getByLabel("Task").fill("Which day?");
  for (const agent of ["actions", "decisions", "risks"]) await page.getByRole("checkbox", { name: agent }).uncheck();
  await page.getByRole("button", { name: /^Ask/ }).click();
  // It is looked at again until it has ended, as a person would.
  for (let tries = 0; tries < 100; tries++) {
    if ((await page.locator(".turn").first().locator(".state.answered").count()) > 0) break;
    await page.reload();
  }
  await page.locator(".turn").first().locator(".state.answered").first().waitFor();
  await page.context().close();
});

test("who loses the daemon is told so, and when it is back", async () => {
  const page = await enter(browser, place);
  await page.goto(`${place.address}/sessions/${id}`);
  const link = page.locator("#link");
  await page.route("**/events?*", (route) => route.abort());
  await page.goto(`${place.address}/sessions/${id}`);
  await link.getByText("disconnected: trying again").waitFor();
  await shot(page, "disconnected");
  await page.unroute("**/events?*");
  await page.waitForFunction(() => document.getElementById("link").textContent === "");
  await page.context().close();
});

const pages = async () => {
  const turns = (await place.ask("GET", `/v1/sessions/${id}/turns`)).items;
  const turn = turns.find((turn) => turn.runs.some((run) => run.agent === "risks"));
  return {
    turn: `/sessions/${id}/turns/${turn.turn}`,
    run: `/sessions/${id}/runs/${turn.runs[0].run}`,
    snapshot: `/sessions/${id}/snapshots/${turn.snapshot}`,
    turns: `/sessions/${id}/turns`,
    found: `/?q=replica`,
    ...fixed(),
  };
};

const fixed = () => ({
  sessions: "/",
  session: `/sessions/${id}`,
  history: `/sessions/${id}/history?from=1`,
  tree: `/sessions/${id}/tree`,
  checkpoint: `/sessions/${id}/checkpoints/1`,
  compact: `/sessions/${id}/compact`,
  exported: `/sessions/${id}/export`,
  context: `/sessions/${id}/context`,
  checkpoints: `/sessions/${id}/checkpoints`,
  undo: `/sessions/${id}/checkpoints/1/revert`,
  message: `/sessions/${id}/messages/1`,
  own: `/sessions/${id}/settings`,
  approvals: "/approvals",
  schedules: "/schedules",
  usage: "/usage",
  settings: "/settings",
});

for (const scheme of ["light", "dark"]) {
  test(`nothing keeps anybody from using it: ${scheme}, wide and on a phone`, async () => {
    for (const width of [1280, 375]) {
      const viewport = { width, height: 800 };
      const page = await enter(browser, place, { colorScheme: scheme, viewport });
      for (const [name, path] of Object.entries(await pages())) {
        await page.goto(place.address + path);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${name} is ${wide} wide on ${width}`);
        await page.evaluate(axe);
        const found = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
        const faults = found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html.slice(0, 160))]);
        assert.deepEqual(faults, [], `${name}, ${scheme}, ${width}`);
        await shot(page, `${name}-${scheme}-${width}`);
      }
      assert.deepEqual(page.faults, []);
      await page.context().close();
    }
  });
}

test("the first page is small", async () => {
  const page = await enter(browser, place);
  let bytes = 0;
  page.on("response", async (reply) => {
    bytes += (await reply.body().catch(() => "")).length;
  });
  await page.goto(place.address, { waitUntil: "networkidle" });
  assert.ok(bytes > 0 && bytes <= 100 * 1024, `${bytes} bytes`);
  await page.context().close();
});

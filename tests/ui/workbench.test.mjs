// A session's page while something goes on: what a person does there stays, what waits is said, and
// what is large or hostile is bounded.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser as launch, enter, shot } from "./browser.mjs";
import { Place, withDaemon } from "./place.mjs";
import { model, settings } from "./tools.mjs";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

const said = (count, text = "The move is on Friday.") =>
  Array.from({ length: count }, (_, at) => ({ role: at % 2 ? "assistant" : "user", content: `${at + 1}: ${text}` }));

// Asks again until it is so.
async function until(so) {
  for (let tries = 0; tries < 1_000; tries++) if (await so()) return;
  throw new Error("it never became so");
}

// An agent that waits for a word on a pipe.
function waiting(place) {
  const [started, word] = ["started", "word"].map((name) => join(place.path, name));
  execFileSync("mkfifo", [started, word]);
  const script = `echo x > '${started}'; read -r w < '${word}'; echo "The word is $w."`;
  const agent = `[agents.waits]\ndescription = "Test"\nkind = "command"\ncommand = "sh"\nargs = ["-c", ${JSON.stringify(script)}]\n`;
  writeFileSync(join(place.path, "config/unisono.toml"), agent);
  return { begun: () => execFileSync("cat", [started]), say: (text) => writeFileSync(word, `${text}\n`) };
}

test("while a turn goes on, focus, place and what was opened stay", async () => {
  const place = new Place();
  const agent = waiting(place);
  await place.serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Still", messages: said(60) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator("#more60 summary").click();
    await page.locator("#context-table summary").click();
    const scroller = page.locator(".scroller");
    await scroller.evaluate((pane) => { pane.scrollTop = -300; });
    await page.getByLabel("Name of the branch").last().fill("half a na");
    await page.locator("#fork60").evaluate((field) => field.setSelectionRange(2, 5));
    await scroller.evaluate(() => { window.before = document.getElementById("m60").getBoundingClientRect().top; });
    // As a browser does when a field is made larger.
    await page.evaluate(() => { document.getElementById("task").style.height = "120px"; });
    // The page is not loaded again: a mark on it stays.
    await page.evaluate(() => { document.getElementById("m60").marked = true; });
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Which word?", agents: ["waits"], wait: false });
    agent.begun();
    await page.locator(".runs .state.running").first().waitFor();
    agent.say("unison");
    await page.locator(".turn .state.answered").waitFor();
    const kept = await page.evaluate(() => ({
      focus: document.activeElement.id,
      selected: [document.activeElement.selectionStart, document.activeElement.selectionEnd],
      text: document.activeElement.value,
      more: document.getElementById("more60").open,
      table: document.getElementById("context-table").open,
      height: document.getElementById("task").style.height,
      marked: document.getElementById("m60").marked,
      place: Math.abs(document.getElementById("m60").getBoundingClientRect().top - window.before) < 2,
      // Newer messages push this one out of what the daemon renders; it stays while it is looked at.
      first: document.getElementById("m31") !== null,
    }));
    assert.deepEqual(
      kept,
      { focus: "fork60", selected: [2, 5], text: "half a na", more: true, table: true, height: "120px", marked: true, place: true, first: true },
    );
    const order = await page.locator(".messages article").evaluateAll((all) => all.map((one) => Number(one.id.slice(1))));
    assert.deepEqual(order, order.map((_, at) => 31 + at), "in their order, each once");
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
  }
});

test("an answer is streamed into the conversation, and stands there once", async () => {
  const spoken = await model("The move is on **Friday**.");
  const place = await new Place(settings(spoken.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Stream", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.evaluate(() => { document.body.marked = true; });
    await page.getByLabel("Task").fill("When");
    await page.getByRole("button", { name: "Ask clerk" }).click();
    await page.locator(".messages [data-run]").getByText("The move is on **Friday**.").waitFor();
    await shot(page, "streaming");
    // The page that asked is the one that follows: nothing that was said meanwhile is missed.
    assert.equal(await page.evaluate(() => document.body.marked), true);
    assert.equal(await page.getByLabel("Task").inputValue(), "");
    // A page that is opened in the middle of the answer has its beginning.
    await page.reload();
    await page.locator(".messages [data-run]").getByText("The move is on **Friday**.").waitFor();
    spoken.finish();
    await page.locator(".turn .state.answered").waitFor();
    // What was streamed as it came is Markdown once it is whole.
    await page.locator(".message strong", { hasText: "Friday" }).waitFor();
    assert.equal(await page.getByText("The move is on Friday.").count(), 3, "two of before, and the answer");
    assert.equal(await page.locator("[data-run]").count(), 0);
    await page.locator("#m3 > header", { hasText: /· 1 token\b/ }).waitFor();
    // Why it answered so is one click away.
    await page.locator(".message", { hasText: "Friday" }).last().getByRole("link", { name: "its run" }).click();
    await page.getByText("These are the bytes that were sent").waitFor();
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
    await spoken.close();
  }
});

test("an answer that begins again after a crash stands there once", async () => {
  let again;
  const text = "The move is on **Friday**.";
  const spoken = await model(text, Promise.resolve(), new Promise((done) => { again = done; }));
  const place = await new Place(settings(spoken.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Crash", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When?", wait: false });
    const streamed = page.locator(".messages [data-run]");
    await streamed.getByText(text, { exact: true }).waitFor();
    place.daemon.kill("SIGKILL");
    await place.halt();
    await streamed.getByText(`${text} …`, { exact: true }).waitFor();
    await place.serve();
    // What was said before stays until the page follows again, and the answer has begun again.
    await page.locator("#link:empty").waitFor({ state: "attached" });
    again();
    await streamed.getByText(text, { exact: true }).waitFor();
    spoken.finish();
    await page.locator(".turn .state.answered").waitFor();
  } finally {
    await place.stop();
    await spoken.close();
  }
});

test("what waits for a person is said wherever it stands, and approved with one click", async () => {
  const answers = await model();
  const place = await new Place(settings(answers.address)).serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Letters", messages: said(1) });
    const page = await enter(browser, place);
    await page.getByText("Letters").waitFor();
    const { turn } = await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Tell them.", wait: false });
    // The list of sessions says so by itself, and leads there.
    await page.getByRole("link", { name: "waits for you" }).waitFor();
    await shot(page, "list-waiting");
    await page.goto(`${place.address}/sessions/${session}/turns/${turn}`);
    assert.ok((await page.locator(".state.you").count()) >= 2, "the turn and its run");
    assert.equal(await page.getByText("running").count(), 0);
    await page.locator(".runs").getByRole("link", { name: "clerk" }).click();
    await page.getByRole("link", { name: "waits for you" }).waitFor();
    await page.goto(`${place.address}/agents/clerk`);
    await page.getByRole("row").getByRole("link", { name: "waits for you" }).waitFor();
    await page.goto(`${place.address}/`);
    await page.getByRole("link", { name: "waits for you" }).click();
    await page.waitForURL(`**/sessions/${session}#waiting`);
    // By keyboard alone, too: calls, branches and checkpoints are in the palette.
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Go to" });
    await page.keyboard.type("branch at message 1");
    await palette.getByRole("option", { name: "Branch at message 1 …", selected: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement.id === "fork1");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("approve");
    await palette.getByRole("option", { name: /Approve: clerk asks to call mail__send/, selected: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".turn .state.answered").waitFor();
    assert.equal(await page.getByText("waits for you").count(), 0);
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
    await answers.close();
  }
});

test("who answers a call keeps the place when another one is answered elsewhere", async () => {
  const answers = await model();
  const place = await new Place(settings(answers.address)).serve();
  try {
    const calls = async () => (await place.ask("GET", "/v1/approvals")).items;
    for (const [at, title] of ["First", "Second"].entries()) {
      const { session } = await place.ask("POST", "/v1/sessions", { title, messages: said(1) });
      await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Tell them.", wait: false });
      await until(async () => (await calls()).length === at + 1);
    }
    const page = await enter(browser, place);
    await page.goto(`${place.address}/approvals`);
    const second = page.getByRole("region", { name: "Second" });
    await second.getByText("Deny …").click();
    await second.getByLabel(/Why, for the model/).focus();
    const approve = second.getByRole("button", { name: "Approve" });
    const before = await approve.boundingBox();
    await place.ask("POST", `/v1/approvals/${(await calls())[0].call}`, { decision: "approve" });
    const first = page.getByRole("region", { name: "First" });
    await first.getByRole("button", { name: "Waits no longer", disabled: true }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.name), "text");
    assert.deepEqual(await approve.boundingBox(), before);
    // It is gone when nobody looks.
    await page.evaluate(() => {
      Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
      delete document.visibilityState;
    });
    await first.waitFor({ state: "detached" });
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
    await answers.close();
  }
});

test("a new turn does not put its Cancel below the pointer", async () => {
  const place = new Place();
  const agent = waiting(place);
  await place.serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Turns", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const ask = (task, agents) => place.ask("POST", `/v1/sessions/${session}/turns`, { task, agents, wait: false });
    await ask("Which word?", ["waits"]);
    agent.begun();
    await page.locator(".turn").getByRole("button", { name: "Cancel" }).hover();
    await ask("And then?", []);
    await page.locator(".message.gone").getByText("And then?").waitFor();
    assert.equal(await page.locator(".turn").count(), 1);
    await page.mouse.move(1, 1);
    await page.locator(".turn", { hasText: "And then?" }).waitFor();
    agent.say("unison");
    await page.locator(".turn .state.answered").first().waitFor();
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
  }
});

test("a new call is not added while the pointer is on another one", async () => {
  const answers = await model();
  const place = await new Place(settings(answers.address)).serve();
  try {
    const ask = async (title, calls) => {
      const { session } = await place.ask("POST", "/v1/sessions", { title, messages: said(1) });
      await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "Tell them.", wait: false });
      await until(async () => (await place.ask("GET", "/v1/approvals")).items.length === calls);
    };
    await ask("First", 1);
    const page = await enter(browser, place);
    await page.goto(`${place.address}/approvals`);
    await page.getByRole("button", { name: "Approve" }).hover();
    await ask("Second", 2);
    // The first answer may have been asked for before.
    for (let answer = 0; answer < 3; answer++) await page.waitForResponse(`${place.address}/approvals`);
    const second = page.getByRole("region", { name: "Second" });
    assert.equal(await second.count(), 0);
    // Who does not see it hears of it.
    assert.equal(await page.locator("#said").textContent(), "A call waits for you.");
    await page.mouse.move(1, 1);
    await second.waitFor();
    // What was touched stays hovered, though no pointer is on it.
    await page.getByRole("button", { name: "Approve" }).first().hover();
    await page.dispatchEvent("body", "pointerover", { pointerType: "touch" });
    await ask("Third", 3);
    await page.getByRole("region", { name: "Third" }).waitFor();
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
    await answers.close();
  }
});

test("the button that copies code keeps the focus while the page is brought up to date", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Copy", messages: [{ role: "user", content: "```\ncode\n```" }] });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.getByRole("button", { name: "Copy" }).focus();
    await place.ask("POST", `/v1/sessions/${session}/messages`, { text: "One more." });
    await page.locator(".message").getByText("One more.").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Copy");
    assert.equal(await page.locator(".copy").count(), 1);
  });
});

test("a browser that lets no page copy is said to", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Copy", messages: [{ role: "user", content: "```\ncode\n```" }] });
    const page = await enter(browser, place);
    await page.addInitScript(() => {
      navigator.clipboard.writeText = () => Promise.reject(new DOMException("Not allowed", "NotAllowedError"));
    });
    await page.goto(`${place.address}/sessions/${session}`);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Not allowed" }).waitFor();
    assert.deepEqual(page.faults, []);
  });
});

test("a form that is refused keeps what was written, with the reason beside it", async () => {
  for (const javaScriptEnabled of [true, false]) {
    await withDaemon(new Place(), async (place) => {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Typo", messages: said(2) });
      const page = await enter(browser, place, { javaScriptEnabled });
      await page.goto(`${place.address}/sessions/${session}`);
      await page.getByLabel("Task").fill("When is\nthe move?");
      await page.getByRole("checkbox", { name: "facts" }).uncheck();
      await page.getByText("Tasks of their own, another lead").click();
      await page.getByLabel("risks", { exact: true }).last().fill("Find risks.");
      await page.getByLabel("Lead", { exact: true }).selectOption("coordinator");
      // What happens meanwhile changes nothing of it.
      await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "x", agents: [], wait: true });
      if (javaScriptEnabled) {
        // An agent that there is no more, as an older page would name it.
        await page.route("**/ask", (route) => route.continue({ postData: route.request().postData().replace("agent=actions", "agent=fcts") }), { times: 1 });
        await page.getByRole("button", { name: /^Ask/ }).click();
        await page.getByRole("alert").getByText(/unknown agent/).waitFor();
        assert.equal(await page.getByLabel("Task").inputValue(), "When is\nthe move?");
        assert.equal(await page.getByLabel("Task").getAttribute("aria-describedby"), "refused");
        assert.equal(await page.getByRole("checkbox", { name: "facts" }).isChecked(), false);
        assert.equal(await page.getByLabel("risks", { exact: true }).last().inputValue(), "Find risks.");
        assert.equal(await page.getByLabel("Lead", { exact: true }).inputValue(), "coordinator");
        // What changes meanwhile does not take it away.
        await place.ask("POST", `/v1/sessions/${session}/messages`, { text: "One more." });
        await page.locator(".message").getByText("One more.").waitFor();
        assert.equal(await page.getByLabel("Task").inputValue(), "When is\nthe move?");
        await page.getByRole("checkbox", { name: "fcts" }).uncheck();
      }
      await page.getByRole("button", { name: /^Ask/ }).click();
      await page.locator(".turn").getByRole("link", { name: "When is the move?" }).waitFor();
      await page.context().close();
      const { items } = await place.ask("GET", `/v1/sessions/${session}/turns`);
      assert.equal(items[0].task, "When is\nthe move?");
      await until(async () => (await place.ask("GET", `/v1/sessions/${session}/turns/${items[0].turn}`)).runs.some((run) => run.role === "lead"));
      const { runs } = await place.ask("GET", `/v1/sessions/${session}/turns/${items[0].turn}`);
      assert.equal(runs.find((run) => run.role === "lead").agent, "coordinator");
    });
  }
});

// A PNG of one pixel.
const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

test("images and documents go with a task, and are shown in the conversation", async () => {
  for (const javaScriptEnabled of [true, false]) {
    await withDaemon(new Place(), async (place) => {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Files", messages: said(2) });
      const page = await enter(browser, place, { javaScriptEnabled });
      await page.goto(`${place.address}/sessions/${session}`);
      await page.getByLabel("Task").fill("What is this?");
      const pdf = (name, text) => ({ name, mimeType: "application/pdf", buffer: Buffer.from(`%PDF-1.7\n${text}/Type /Page\n%%EOF\n`) });
      const cut = { name: "cut.png", mimeType: "image/png", buffer: png.subarray(0, 40) };
      await page.getByLabel("Images and PDFs").setInputFiles([pdf("plan.pdf", ""), cut, pdf("annex.pdf", "%\n")]);
      await page.getByRole("button", { name: /^Ask/ }).click();
      await page.getByRole("alert").getByText(/cut.png: .*damaged or truncated/).waitFor();
      // What was taken stays in the form beside what was written, also what came after the refused file.
      assert.equal(await page.getByLabel("Task").inputValue(), "What is this?");
      for (const name of ["plan.pdf", "annex.pdf"]) assert.equal(await page.getByRole("checkbox", { name }).isChecked(), true);
      assert.equal(await page.getByLabel("Images and PDFs").evaluate((field) => field.files.length), 0);
      const shot = { name: "screen.png", mimeType: "image/png", buffer: png };
      await page.getByLabel("Images and PDFs").setInputFiles([shot]);
      await page.getByRole("button", { name: /^Ask/ }).click();
      await page.locator(".turn").getByRole("link", { name: "What is this?" }).waitFor();
      if (!javaScriptEnabled) await page.goto(`${place.address}/sessions/${session}`);
      const image = page.locator(".message img[alt='screen.png']");
      await image.waitFor();
      const saving = page.waitForEvent("download");
      await page.locator(".message figcaption").getByRole("link", { name: "plan.pdf" }).click();
      assert.equal((await saving).suggestedFilename(), "plan.pdf");
      const address = await image.getAttribute("src");
      const content = await page.request.get(place.address + address);
      assert.deepEqual(Buffer.from(await content.body()), png);
      if (javaScriptEnabled) {
        assert.ok(await image.evaluate((shown) => shown.decode().then(() => shown.naturalWidth === 1)));
        assert.equal(await page.getByRole("checkbox", { name: "plan.pdf" }).count(), 0);
      }
      const { items } = await place.ask("GET", `/v1/sessions/${session}/messages`);
      const asked = items.find((message) => message.parts.length === 4);
      assert.deepEqual(asked.parts.map((part) => part.filename ?? part.text), ["What is this?", "plan.pdf", "annex.pdf", "screen.png"]);
      // The refused file is a failed load of the form, which Chromium notes.
      assert.deepEqual(page.faults.filter((fault) => !fault.includes("400")), []);
    });
  }
});

test("a file that is dropped on a conversation is added to the task", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Drop", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const dropped = (name) => page.evaluateHandle(([name, bytes]) => {
      const all = new DataTransfer();
      all.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
      return all;
    }, [name, [...png]]);
    for (const name of ["one.png", "two.png"]) {
      await page.dispatchEvent("#composer", "drop", { dataTransfer: await dropped(name) });
    }
    // What changes meanwhile does not take them away.
    await place.ask("POST", `/v1/sessions/${session}/messages`, { text: "One more." });
    await page.locator(".message").getByText("One more.").waitFor();
    await page.getByLabel("Task").fill("Which one?");
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.locator(".message img[alt='two.png']").waitFor();
    assert.equal(await page.locator(".message img[alt='one.png']").count(), 1);
    assert.deepEqual(page.faults, []);
  });
});

test("a file that is chosen while a task is sent stays for the next one", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Meanwhile", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    let go;
    const gate = new Promise((done) => { go = done; });
    await page.route("**/ask", (route) => gate.then(() => route.continue()));
    const field = page.getByLabel("Images and PDFs");
    await field.setInputFiles([{ name: "one.png", mimeType: "image/png", buffer: png }]);
    await page.getByLabel("Task").fill("Which one?");
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.getByText("Sending the files …").waitFor();
    const dataTransfer = await page.evaluateHandle((bytes) => {
      const all = new DataTransfer();
      all.items.add(new File([new Uint8Array(bytes)], "two.png", { type: "image/png" }));
      return all;
    }, [...png]);
    await page.dispatchEvent("#composer", "drop", { dataTransfer });
    go();
    await page.locator(".message img[alt='one.png']").waitFor();
    await page.waitForFunction(() => document.getElementById("files").files.length < 2);
    assert.deepEqual(await field.evaluate(({ files }) => [...files].map(({ name }) => name)), ["two.png"]);
  });
});

test("a task is not sent without its file because that is empty", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Empty", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    await page.getByLabel("Task").fill("What is this?");
    await page.getByLabel("Images and PDFs").setInputFiles([{ name: "empty.png", mimeType: "image/png", buffer: Buffer.alloc(0) }]);
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.getByRole("alert").getByText(/^empty.png: /).waitFor();
    assert.deepEqual((await place.ask("GET", `/v1/sessions/${session}/turns`)).items, []);
  });
});

test("files whose upload breaks off may be too large", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Large", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    // As where the daemon has refused a large form while the browser is still sending it.
    let end;
    const ended = new Promise((done) => { end = done; });
    await page.route("**/ask", (route) => ended.then(() => route.abort("connectionreset")));
    await page.getByLabel("Task").fill("What is this?");
    await page.getByLabel("Images and PDFs").setInputFiles([{ name: "screen.png", mimeType: "image/png", buffer: png }]);
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.getByText("Sending the files …").waitFor();
    end();
    await page.getByText(/Not sent: .* the files are too large for it/).waitFor();
    assert.equal(await page.getByLabel("Images and PDFs").evaluate((field) => field.files.length), 1);
  });
});

test("a file that was removed since it was chosen is named", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Removed", messages: said(2) });
    const page = await enter(browser, place);
    for (const [path, field, button, says] of [
      [`/sessions/${session}`, "Images and PDFs", /^Ask/, "Not sent: gone.png cannot be read."],
      ["/import", "Files", /^Import$/, "Not imported: gone.png cannot be read."],
    ]) {
      const file = join(place.path, "gone.png");
      writeFileSync(file, png);
      await page.goto(place.address + path);
      if (path !== "/import") await page.getByLabel("Task", { exact: true }).fill("What is this?");
      await page.getByLabel(field, { exact: true }).setInputFiles(file);
      rmSync(file);
      await page.getByRole("button", { name: button }).click();
      await page.getByText(says).waitFor();
    }
  });
});

test("an estimate that comes after its task was sent is not shown", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Late", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const held = async (path) => {
      let go;
      const gate = new Promise((done) => { go = done; });
      await page.route(path, (route) => gate.then(() => route.continue()));
      return go;
    };
    const [send, estimate] = [await held("**/ask"), await held("**/estimate")];
    const asked = page.waitForRequest(/\/estimate$/);
    await page.getByLabel("Task").fill("When is it?");
    await page.getByRole("button", { name: /^Ask/ }).click();
    // It is asked for while the task is on its way.
    await asked;
    send();
    await page.waitForFunction(() => document.getElementById("task").value === "");
    const answered = page.waitForResponse(/\/estimate$/);
    estimate();
    await (await answered).finished();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await page.locator("#estimate").textContent(), "");
  });
});

test("a picture is pasted as a file, and cells of a table as text", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Paste", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    // Whether the paste became a file, and the number of files.
    const pasted = (texts) => page.evaluate((texts) => {
      const clipboardData = new DataTransfer();
      for (const [type, text] of texts) clipboardData.items.add(text, type);
      clipboardData.items.add(new File(["x"], "image.png", { type: "image/png" }));
      const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
      document.getElementById("task").dispatchEvent(event);
      return [event.defaultPrevented, document.getElementById("files").files.length];
    }, texts);
    const [plain, html] = [["text/plain", "1\t2"], ["text/html", "<table><tr><td>1<td>2</table>"]];
    assert.deepEqual(await pasted([plain, html]), [false, 0]);
    assert.deepEqual(await pasted([]), [true, 1]);
    // The name of a copied file, and the address of a copied picture.
    assert.deepEqual(await pasted([plain]), [true, 2]);
    assert.deepEqual(await pasted([html]), [true, 3]);
  });
});

test("a task whose answer was lost on the way is sent again, and done once", async () => {
  // The connection breaks off, or is gone without a word.
  for (const breaks of [(route) => route.abort(), () => {}]) {
    await withDaemon(new Place(), async (place) => {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Once", messages: said(2) });
      const page = await enter(browser, place);
      await page.addInitScript(() => {
        const timeout = AbortSignal.timeout.bind(AbortSignal);
        AbortSignal.timeout = () => timeout(5_000);
      });
      await page.goto(`${place.address}/sessions/${session}`);
      let lost = 0;
      await page.route("**/ask", async (route) => {
        if (lost++ > 0) return route.continue();
        // The daemon takes it before its answer is lost.
        await route.fetch({ maxRedirects: 0 });
        await breaks(route);
      });
      await page.getByLabel("Task").fill("Only once?");
      await page.getByRole("button", { name: /^Ask/ }).click();
      await page.locator(".turn .state.answered").waitFor();
      const { items } = await place.ask("GET", `/v1/sessions/${session}/turns`);
      assert.deepEqual(items.map((turn) => turn.task), ["Only once?"]);
      await page.waitForFunction(() => document.getElementById("task").value === "");
      assert.ok(lost >= 2);
    });
  }
});

test("a task whose page was left before its answer came is done once", async () => {
  await withDaemon(new Place(), async (place) => {
    const page = await enter(browser, place);
    for (const comesBack of [(home) => page.goto(home), () => page.goBack()]) {
      const { session } = await place.ask("POST", "/v1/sessions", { title: "Left", messages: said(2) });
      const home = `${place.address}/sessions/${session}`;
      await page.goto(home);
      // The daemon takes it; the page is gone when its answer comes.
      const taken = new Promise((done) => page.route("**/ask", (route) => route.fetch({ maxRedirects: 0 }).then(done), { times: 1 }));
      await page.getByLabel("Task").fill("Only once?");
      await page.getByRole("button", { name: /^Ask/ }).click();
      await taken;
      await page.goto(`${place.address}/agents`);
      await comesBack(home);
      await page.getByText("Perhaps not sent.").waitFor();
      assert.equal(await page.getByLabel("Task").inputValue(), "Only once?");
      await page.getByRole("button", { name: /^Ask/ }).click();
      await page.waitForFunction(() => document.getElementById("task").value === "");
      const { items } = await place.ask("GET", `/v1/sessions/${session}/turns`);
      assert.deepEqual(items.map((turn) => turn.task), ["Only once?"]);
    }
  });
});

test("what is written while a task is sent stays, and a task that is too large to be kept is sent", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Slow", messages: said(2) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    let go;
    const gate = new Promise((done) => { go = done; });
    await page.route("**/ask", (route) => gate.then(() => route.continue()), { times: 1 });
    const task = page.getByLabel("Task");
    await task.fill("The first?");
    await page.getByRole("button", { name: /^Ask/ }).click();
    await task.fill("The second?");
    const answered = page.waitForResponse(/\/ask$/);
    go();
    await (await answered).finished();
    await page.locator(".turn").getByRole("link", { name: "The first?" }).waitFor();
    assert.equal(await task.inputValue(), "The second?");
    // As a browser refuses a text beyond its limit.
    await page.evaluate(() => { Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }; });
    await task.fill("The third?");
    await page.getByRole("button", { name: /^Ask/ }).click();
    await page.locator(".turn").getByRole("link", { name: "The third?" }).waitFor();
    assert.deepEqual(page.faults, []);
    const { items } = await place.ask("GET", `/v1/sessions/${session}/turns`);
    assert.deepEqual(items.map((turn) => turn.task), ["The third?", "The first?"]);
  });
});

test("a model and a preset are chosen for one turn", async () => {
  // The configured model has no key.
  await withDaemon(new Place('[models]\ndefault = "openai/gpt-4o"\n'), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Chosen", messages: said(4) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const ask = async (task) => {
      await page.getByLabel("Task", { exact: true }).fill(task);
      await page.getByRole("button", { name: /^Ask/ }).click();
    };
    await page.getByText("Tasks of their own, another lead").click();
    const presets = await page.locator("#preset option").evaluateAll((all) => all.map((one) => one.value).filter(Boolean));
    assert.deepEqual(await page.locator("#model option").allTextContents(), ["as configured", "extractive"]);
    for (const preset of presets) {
      await page.getByLabel("Model of all agents").selectOption("extractive");
      await page.getByLabel("Compaction preset").selectOption(preset);
      await ask(`With ${preset}?`);
      await page.locator(".turn", { hasText: `With ${preset}?` }).locator(".state.answered").waitFor();
    }
    const { items } = await place.ask("GET", `/v1/sessions/${session}/turns`);
    assert.equal(items.length, presets.length);
    assert.ok(items.every(({ runs }) => runs.every(({ model }) => model === "extractive")), JSON.stringify(items[0].runs));
    // The session's own settings are as they were.
    assert.deepEqual((await place.ask("GET", `/v1/sessions/${session}`)).settings ?? {}, {});
  });
});

test("a branch shows its own turns", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Branches", messages: said(4) });
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "On the first one?", agents: [] });
    await place.ask("POST", `/v1/sessions/${session}/branches`, { name: "what if", at: "#2" });
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "On the other?", agents: [], branch: "what if" });
    const page = await enter(browser, place);
    for (const path of ["", "/turns"]) {
      for (const [branch, own] of [["main", "On the first one?"], ["what%20if", "On the other?"]]) {
        await page.goto(`${place.address}/sessions/${session}${path}?branch=${branch}`);
        assert.deepEqual(await page.locator(".turn h3").allTextContents(), [own], branch);
      }
    }
  });
});

test("what is refused or breaks off is followed again from its last event", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Again", messages: said(2) });
    const page = await enter(browser, place);
    const asked = [];
    let refuse = true;
    await page.route("**/events?*", async (route) => {
      asked.push(new URL(route.request().url()).searchParams.get("after"));
      // A refusal ends a stream for good: the browser does not come back by itself.
      if (refuse) await route.fulfill({ status: 503, body: "" });
      else await route.continue();
    });
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator("#link").getByText("disconnected: trying again").waitFor();
    await place.ask("POST", `/v1/sessions/${session}/messages`, { text: "Said meanwhile." });
    refuse = false;
    await page.locator(".message").getByText("Said meanwhile.").waitFor();
    await page.waitForFunction(() => document.getElementById("link").textContent === "");
    assert.ok(asked.length >= 2 && asked.every((event) => event === asked[0]), String(asked));
  });
});

test("texts of people, models and tools are never more than text", async () => {
  const place = await new Place().serve();
  const attack = [
    "<script>window.hacked = 1</script>", "<img src=x onerror='window.hacked=1'>", "[click](javascript:window.hacked=1)",
    "![x](data:text/html,<script>window.hacked=1</script>)", "<svg onload='window.hacked=1'></svg>",
    "```\"><script>window.hacked=1</script>\n</code></pre><script>window.hacked=1</script>\n```",
    "[ok](https://example.org/ok) \u202egnp.exe", "| <b onclick=x> |\n|---|\n| <iframe> |",
  ].join("\n\n");
  try {
    const long = "word ".repeat(220_000);
    const { session } = await place.ask("POST", "/v1/sessions", {
      title: attack.slice(0, 60), labels: { "<b>": "<i>" },
      messages: [
        { role: "user", content: attack }, { role: "assistant", content: attack },
        { role: "assistant", content: "", tool_calls: [{ id: "c1", type: "function", function: { name: "t<b>", arguments: JSON.stringify({ a: attack }) } }] },
        { role: "tool", tool_call_id: "c1", content: attack }, { role: "user", content: long },
      ],
    });
    const page = await enter(browser, place);
    for (const path of ["/", `/sessions/${session}`, `/sessions/${session}/history?from=1`, `/sessions/${session}/messages/1`, `/sessions/${session}/context`, `/sessions/${session}/tree`]) {
      const reply = await page.goto(place.address + path);
      const size = (await reply.body()).length;
      assert.ok(size < 300_000, `${path} has ${size} bytes`);
      assert.equal(await page.evaluate(() => window.hacked), undefined, path);
      assert.equal(await page.locator("main script:not([src^='/static/']), main img, main iframe, main [onclick], main [onload]").count(), 0, path);
      const links = await page.locator("main a[href]").evaluateAll((all) => all.map((link) => new URL(link.getAttribute("href"), location.href).protocol));
      assert.ok(links.every((scheme) => ["http:", "https:", "mailto:"].includes(scheme)), String(links));
      assert.equal(await page.evaluate(() => document.documentElement.outerHTML.includes("\u202e")), false, path);
    }
    await page.goto(`${place.address}/sessions/${session}`);
    const outside = page.getByRole("link", { name: "ok", exact: true }).first();
    assert.equal(await outside.getAttribute("rel"), "noopener nofollow noreferrer");
    // What is too long to be shown among others has a page of its own, in parts.
    await page.getByRole("link", { name: "the whole text" }).last().click();
    const part = page.getByText(/^Bytes [\d,]+ to [\d,]+ of 1,(100,000|099,999)$/);
    assert.match(await part.textContent(), /^Bytes 1 to 40,960 /);
    await page.getByRole("link", { name: "Next part" }).click();
    await page.getByText(/^Bytes 40,961 to 81,920 /).waitFor();
    assert.equal((await page.locator("main pre").textContent()).length, 40_960);
    assert.deepEqual(page.faults, []);
  } finally {
    await place.stop();
  }
});

test("a session of 10,000 messages is a small page", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Long", messages: said(10_000, "The move is on **Friday**. ".repeat(10)) });
    const page = await enter(browser, place);
    for (const path of ["", "/history", "/history?from=5000", "/context", "/context?from=5000", "/turns"]) {
      const reply = await page.goto(`${place.address}/sessions/${session}${path}`);
      assert.equal(reply.headers()["content-encoding"], "gzip");
      const bytes = Number(reply.headers()["content-length"]);
      assert.ok(bytes > 0 && bytes <= 60 * 1024, `${path} is ${bytes} bytes`);
      const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
      assert.ok(nodes < 4_000, `${path} has ${nodes} nodes`);
    }
    // The parts lead to each other.
    await page.goto(`${place.address}/sessions/${session}`);
    await page.getByRole("link", { name: "Earlier messages" }).click();
    await page.locator("#m9970").waitFor();
    await page.getByRole("link", { name: "Older messages" }).click();
    await page.locator("#m9900").waitFor();
    // A part of the context's drawing leads to its messages; so does the table, for the keyboard.
    await page.goto(`${place.address}/sessions/${session}`);
    await page.locator("#context-table summary").click();
    await page.locator("#context-table").getByRole("link", { name: /^#1–/ }).click();
    await page.locator("#m1").waitFor();
    assert.deepEqual(page.faults, []);
  });
});

test("in a small window a third of it is the conversation, and the whole form is in sight", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Small", messages: said(60) });
    const page = await enter(browser, place);
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.goto(`${place.address}/sessions/${session}`);
    await shot(page, "small-window");
    const height = await page.locator(".scroller").evaluate((pane) => pane.clientHeight);
    assert.ok(height >= 240, `${height}`);
    const { y, height: high } = await page.getByRole("button", { name: "Ask lead" }).boundingBox();
    assert.ok(y + high <= 720, `${y + high}`);
  });
});

test("in forced colours drawings and buttons have edges, and on a phone all numbers are in sight", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Colours", messages: said(4) });
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task: "When?", agents: ["facts"] });
    const forced = await enter(browser, place, { forcedColors: "active" });
    await forced.goto(`${place.address}/sessions/${session}`);
    const colours = await forced.evaluate(() => {
      const fill = (selector) => getComputedStyle(document.querySelector(selector)).fill;
      const button = getComputedStyle(document.querySelector("button.ask"));
      return { used: fill("rect.used"), room: fill("rect.room"), edge: button.borderTopColor, ground: button.backgroundColor, width: button.borderTopWidth };
    });
    assert.notEqual(colours.used, colours.room);
    assert.notEqual(colours.edge, colours.ground);
    assert.equal(colours.width, "1px");
    await forced.context().close();
    const phone = await enter(browser, place, { viewport: { width: 390, height: 844 } });
    await phone.goto(`${place.address}/sessions/${session}`);
    for (const run of await phone.locator(".runs > li").all()) {
      for (const number of await run.locator("dt").all()) {
        const box = await number.locator("xpath=..").boundingBox();
        assert.ok(box && box.x >= 0 && box.x + box.width <= 390, await number.textContent());
      }
    }
    const context = await phone.locator("#context").boundingBox();
    assert.ok(context.y < 400, `the context begins at ${context.y}`);
  });
});

test("by keyboard alone everything on a session's page is reached", async () => {
  await withDaemon(new Place(), async (place) => {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Keys", messages: said(4, "```\ncode\n```") });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}`);
    const reached = new Set();
    for (let stops = 0; stops < 200; stops++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const one = document.activeElement;
        return one === document.body ? "" : one.id || one.getAttribute("aria-label") || one.textContent.trim().slice(0, 30);
      });
      if (at === "" || (stops > 10 && at === "To the content")) break;
      reached.add(at);
    }
    for (const one of ["Conversation", "task", "agent-facts", "Ask lead", "Compact …", "Turns", "Checkpoints, topics, budgets", "Copy"]) {
      assert.ok(reached.has(one), `${one} is not among ${[...reached].join(", ")}`);
    }
  });
});

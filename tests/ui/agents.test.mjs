// Agents of other programs, imported on the page.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser as launch, enter, shot } from "./browser.mjs";
import { Place, withDaemon } from "./place.mjs";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

const file = (name, text) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
const reviewer = file("reviewer.md", `---
name: reviewer
description: Reviews <b>all</b> of it
tools: Read, Task
maxTurns: 7
color: blue
---
Go through it <i>one by one</i>.
`);
const crew = [
  file("agents.yaml", "writer:\n  role: Writer\n  goal: Write it\n  backstory: Has written much\n  verbose: true\neditor:\n  role: Editor\n  goal: Shorten it\n  backstory: Has cut much\n"),
  file("tasks.yaml", "draft:\n  description: Write a draft\n  expected_output: A draft\n  agent: writer\nshorten:\n  description: Shorten the draft\n  expected_output: A page\n  agent: editor\n"),
];

for (const javaScriptEnabled of [true, false]) {
  test(`agents are imported after a look at what is lost, ${javaScriptEnabled ? "with" : "without"} scripts`, async () => {
    await withDaemon(new Place(), async (place) => {
      const page = await enter(browser, place, { javaScriptEnabled });
      await page.goto(`${place.address}/agents`);
      await page.getByRole("link", { name: "import", exact: true }).click();
      await page.getByLabel("Files of the agents").setInputFiles([reviewer, ...crew, file("notes.txt", "Not one.")]);
      await page.getByRole("button", { name: "Preview the import" }).click();
      // What is lost is said with its line, before anything is written.
      await page.getByRole("status").getByText("to write").waitFor();
      const report = page.locator(".imported").filter({ has: page.getByRole("heading", { name: /^reviewer/ }) });
      await report.getByText(/tools \(line 4\): no such tools here: Read/).waitFor();
      assert.match(await report.locator("details pre").textContent(), /max_model_calls: 7/);
      assert.equal(await page.locator("main b, main i").count(), 0);
      for (const name of [/^writer/, /^editor/, /^crew/]) await page.getByRole("heading", { name }).waitFor();
      await page.getByText("notes.txt").waitFor();
      await shot(page, "import-agents");
      const own = join(place.path, "agents/reviewer.md");
      assert.ok(!existsSync(own));
      await page.getByRole("button", { name: /^Write / }).click();
      await page.getByRole("status").getByText("written").waitFor();
      assert.match(readFileSync(own, "utf8"), /one by one/);
      await page.getByRole("link", { name: "reviewer" }).click();
      await page.getByText("Reviews <b>all</b> of it", { exact: true }).waitFor();
      const agents = await place.ask("GET", "/v1/agents");
      for (const name of ["reviewer", "writer", "editor", "crew"]) assert.ok(agents.some(({ agent }) => agent === name), name);
      // What is there is kept.
      await page.goto(`${place.address}/import/agents`);
      await page.getByLabel("Files of the agents").setInputFiles([reviewer]);
      await page.getByRole("button", { name: "Preview the import" }).click();
      await page.getByText("kept: a file of that name is there").waitFor();
      assert.equal(await page.getByRole("button", { name: /^Write / }).count(), 0);
      assert.deepEqual(page.faults, []);
    });
  });
}

test("an import that does not fit, or is not allowed, writes nothing", async () => {
  const place = new Place();
  // It works after an agent that is not there yet.
  mkdirSync(join(place.path, "agents"));
  await place.serve();
  try {
    const page = await enter(browser, place);
    for (const [files, says] of [
      [[file("broken.md", "---\nname: [\n---\nNo.\n")], /broken\.md/],
      [[file("empty.md", "")], /define no agent/],
    ]) {
      await page.goto(`${place.address}/import/agents`);
      await page.getByLabel("Files of the agents").setInputFiles(files);
      await page.getByRole("button", { name: "Preview the import" }).click();
      await page.getByText(says).first().waitFor();
      assert.equal(await page.getByRole("button", { name: /^Write / }).count(), 0);
    }
    const send = (files, more = {}) => place.ask("POST", "/v1/agent-imports", { files, ...more });
    for (const name of ["../escaped.md", "/tmp/escaped.md", "a/../../escaped.md", "", ".", "a\u0000b.md"]) {
      await assert.rejects(send([{ name, text: "---\nname: escaped\n---\nNo." }]), /422/, name);
    }
    await assert.rejects(send([], { from: "word" }), /422/);
    await assert.rejects(send([{ name: "large.md", text: "x".repeat(1_100_000) }]), /413/);
    assert.ok(!existsSync(join(place.path, "escaped.md")));
    const { secret } = await place.ask("POST", "/v1/tokens", { name: "ada", scope: "approve" });
    place.bearer = secret;
    await assert.rejects(send([]), /403/);
  } finally {
    await place.stop();
  }
  const off = await new Place('[web]\nedit_agents = "off"\n').serve();
  try {
    await assert.rejects(off.ask("POST", "/v1/agent-imports", { files: [] }), /403/);
    const page = await enter(browser, off);
    assert.equal((await page.goto(`${off.address}/import/agents`)).status(), 403);
    await page.getByText("web.edit_agents").waitFor();
    await page.context().close();
  } finally {
    await off.stop();
  }
});

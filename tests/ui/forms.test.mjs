// Forms take what was typed, keep it until it was sent, and say why it was not.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browser as launch, enter, shot } from "./browser.mjs";
import { Place, example } from "./place.mjs";

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
      await page.context().close();
    } finally {
      await place.stop();
    }
  }
});

test("a part is compacted whole: a number of messages that stay is not ignored beside it", async () => {
  const place = await new Place().serve();
  try {
    const { session } = await place.ask("POST", "/v1/sessions", { title: "Part", messages: said(12) });
    const page = await enter(browser, place);
    await page.goto(`${place.address}/sessions/${session}/compact?part=attention&keep=3`);
    await page.getByText("a part is compacted whole").waitFor();
    await page.context().close();
  } finally {
    await place.stop();
  }
});

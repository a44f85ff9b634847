// What the console does while things change: an empty start, a live count, a lost server.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {launch, openPage, screenshot} from './browser.mjs';
import {startProgram, temporaryFolder} from './program.mjs';

let browser;
let program;
const data = temporaryFolder();

before(async () => {
  program = await startProgram(data.folder);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await program?.stop();
  data.remove();
});

test('an empty program teaches what to run next, on every page', async () => {
  for (const [path, name] of [['/', 'empty_home'], ['/models', 'empty_models'],
    ['/drift', 'empty_drift'], ['/audit', 'empty_audit']]) {
    const {page, faults, close} = await openPage(browser, program.base, {path});
    await page.waitForSelector('.link.live');
    if (path !== '/audit') {
      await page.waitForSelector('.command code');
      assert.match(await page.locator('main').innerText(), /falaj (demo|apply|train)/, path);
    }
    if (path === '/') assert.match(await page.locator('h1').textContent(), /channel is dry/);
    await screenshot(page, name);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('a change made elsewhere appears by itself, and a lost server is said and found again',
  async () => {
    const {page, faults, close} = await openPage(browser, program.base,
      {expected: ['ERR_CONNECTION_REFUSED', 'ERR_INCOMPLETE_CHUNKED_ENCODING',
        'ERR_CONNECTION_RESET', 'ERR_EMPTY_RESPONSE']});
    await page.waitForSelector('.link.live');
    const count = page.locator('[data-station=sources] .station-count');
    assert.equal(await count.textContent(), '0');
    const project = await page.locator('select[name=project]').inputValue();
    const reply = await fetch(`${program.base}/api/v1/objects`, {
      method: 'PUT',
      headers: {'content-type': 'application/json'},
      body: JSON.stringify({
        apiVersion: 'falaj.dev/v1', kind: 'Source', metadata: {name: 'payments', project},
        spec: {format: 'csv', path: 'payments.csv', event_time: 'at'},
      }),
    });
    assert.equal(reply.status, 200, await reply.text());
    await page.waitForFunction(() =>
      document.querySelector('[data-station=sources] .station-count')?.textContent === '1');
    await page.waitForSelector('.activity >> text=object.apply');

    const port = Number(new URL(program.base).port);
    await program.stop();
    await page.waitForSelector('.link.lost');
    assert.equal(await count.textContent(), '1', 'the last known figures stay');
    await screenshot(page, 'lost');
    program = await startProgram(data.folder, port);
    await page.waitForSelector('.link.live');
    assert.equal(await count.textContent(), '1', 'and are still true');
    assert.deepEqual(faults, []);
    await close();
  });

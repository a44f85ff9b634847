// The demo's walk as the console shows it: every figure on screen is compared with the API's.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {coloursOf, launch, lowContrast, openPage, screenshot} from './browser.mjs';
import {getJson, runDemo, startProgram, temporaryFolder} from './program.mjs';

let browser;
let program;
let base;
let project;
const data = temporaryFolder();

before(async () => {
  // FALAJ_CONSOLE_URL: a program that already runs with the demo's data, to try one test quickly.
  base = process.env.FALAJ_CONSOLE_URL;
  if (!base) {
    program = await startProgram(data.folder);
    base = program.base;
    await runDemo(base);
  }
  browser = await launch();
  const {page, close} = await openPage(browser, base);
  await page.waitForSelector('[data-station]');
  project = await page.locator('select[name=project]').inputValue();
  await close();
}, {timeout: 300_000});

after(async () => {
  await browser?.close();
  await program?.stop();
  data.remove();
});

const overview = () => getJson(base, `/api/v1/overview?project=${project}`);

async function openQuietly(options) {
  const opened = await openPage(browser, base, options);
  return {
    page: opened.page,
    async done() {
      assert.deepEqual(opened.faults, []);
      await opened.close();
    },
  };
}

test('the home page draws every station with its live count', async () => {
  const {page, done} = await openQuietly();
  await page.waitForSelector('.link.live');
  // The alarm closes a moment after the promotion; what is compared below stays as it is then.
  await page.waitForSelector('h1 >> text=/took over and is serving/');
  const {counts} = await overview();
  assert.equal(counts.alarms_open, 0);
  for (const id of ['sources', 'feature_views', 'training_sets', 'runs', 'models', 'deployments',
    'alarms']) {
    const shown = await page.locator(`[data-station=${id}] .station-count`).textContent();
    assert.equal(shown, counts[id].toLocaleString('en'), id);
    assert.ok(counts[id] > 0, `${id}: the demo leaves at least one`);
  }
  assert.ok(await page.locator('.activity li').count() >= 5);
  const {policies: [policy]} = await getJson(base, `/api/v1/policies?project=${project}`);
  assert.notEqual(policy.current.action.reason, '');
  await page.waitForSelector(`[data-testid=loop-now] >> text="${policy.current.action.reason}"`);
  assert.deepEqual(await page.locator('.gate strong').allTextContents(),
    [policy.snapshot.champion_auc, policy.snapshot.candidate_auc].map((auc) => auc.toFixed(3)));
  assert.match(await page.locator('.ledger').textContent(),
    new RegExp(`^${counts.audit_entries.toLocaleString('en')} audit entries`));
  await screenshot(page, 'home');
  await done();
});

test('a station lists what is in it', async () => {
  const {page, done} = await openQuietly();
  await page.locator('[data-station=runs]').click();
  await page.waitForSelector('.panel table tbody tr');
  const {runs} = await getJson(base, `/api/v1/runs?project=${project}`);
  assert.equal(await page.locator('.panel table tbody tr').count(), runs.length);
  assert.match(page.url(), /show=runs/);
  await page.locator('[data-station=feature_views]').click();
  const {views} = await getJson(base, `/api/v1/feature-views?project=${project}`);
  await page.waitForSelector(`.panel table tbody >> text="${views[0].view}"`);
  await screenshot(page, 'home_feature_views');
  await done();
});

test('the first page is small, compressed and served once', async () => {
  const {page, done} = await openQuietly();
  const files = [];
  page.on('response', (response) => {
    if (!response.url().includes('/api/')) files.push(response);
  });
  await page.reload();
  await page.waitForSelector('[data-station]');
  const sizes = await Promise.all(files.map(async (f) => (await f.request().sizes())));
  const bytes = sizes.reduce((sum, s) => sum + Math.max(0, s.responseBodySize), 0);
  assert.ok(bytes <= 80_000, `${bytes} bytes`);
  const direct = await fetch(base + '/', {headers: {'accept-encoding': 'br'}});
  assert.equal(direct.headers.get('content-encoding'), 'br');
  assert.match(direct.headers.get('content-security-policy'), /default-src 'none'/);
  const again = await fetch(base + '/', {
    headers: {'accept-encoding': 'br', 'if-none-match': direct.headers.get('etag')},
  });
  assert.equal(again.status, 304);
  await done();
});

test('the models page shows the promoted champion, its proof and why it changed', async () => {
  const {page, done} = await openQuietly({path: '/models'});
  const {models} = await getJson(base, `/api/v1/models?project=${project}`);
  const model = models[0];
  assert.ok(model.aliases.champion > 1, 'the demo promotes a second version');
  const champion = page.locator(`[data-model="${model.name}"] .version.champion`);
  assert.equal(await champion.getAttribute('data-version'), String(model.aliases.champion));
  assert.match(await champion.textContent(), /champion/);
  const proof = model.versions[0].proof;
  assert.match(await champion.textContent(),
    new RegExp(`equal on ${proof.rows.toLocaleString('en')} rows`));
  await page.waitForSelector('.timeline >> text=loop.promote');
  const {latency} = await overview();
  assert.ok(latency[0].points.some((p) => p.rps > 0), 'the demo has asked the deployment');
  await page.waitForSelector('.deployment canvas');
  assert.ok(await coloursOf(page.locator('.deployment canvas').first()) > 3, 'sparkline drawn');
  await done();
});

async function firstKeys(page) {
  const inputs = page.locator('.try-it input');
  await inputs.first().waitFor();
  const entity = {};
  for (const input of await inputs.all()) {
    await input.fill('7');
    entity[await input.getAttribute('name')] = 7;
  }
  return entity;
}

test('the try-it box answers by entity id with the score that the API gives', async () => {
  const {page, done} = await openQuietly({path: '/models'});
  const entity = await firstKeys(page);
  assert.ok(Object.keys(entity).length > 0);
  await page.locator('.try-it button[type=submit]').click();
  const shown = await page.locator('[data-testid=score]').textContent();
  const {deployments} = await overview();
  const response = await fetch(
    `${base}/api/v1/deployments/${deployments[0].name}:predict?project=${project}`,
    {method: 'POST', body: JSON.stringify({entity})});
  const {predictions} = await response.json();
  assert.equal(shown, predictions[0].score.toFixed(4));
  assert.ok(await page.locator('.try-it table tbody tr').count() > 1, 'features are listed');
  await screenshot(page, 'models');
  await done();
});

test('the try-it box refuses a key of the wrong type and says so', async () => {
  const {page, done} = await openQuietly({path: '/models'});
  const input = page.locator('.try-it input').first();
  await input.fill('not a number');
  await page.locator('.try-it button[type=submit]').click();
  await page.waitForSelector('.try-it .fault');
  assert.equal(await input.getAttribute('aria-invalid'), 'true');
  await done();
});

test('the drift page draws windows over time and histograms, and the tables behind', async () => {
  const {page, done} = await openQuietly({path: '/drift'});
  const {monitors} = await getJson(base, `/api/v1/monitors?project=${project}`);
  const monitor = monitors[0];
  await page.waitForSelector('.heat');
  const cells = await page.locator('.heat tbody td').count();
  const features = monitor.windows[0].drift.features.length;
  assert.equal(cells, features * Math.min(30, monitor.windows.length));
  assert.match(await page.locator('.verdict > p').textContent(), /^v2 has replaced v1/);
  await page.waitForSelector('.verdict [data-testid=loop-now]');
  const alarmed = monitor.windows.find((w) => w.alarm);
  assert.ok(alarmed, 'the demo raises an alarm');
  const feature = alarmed.drift.worst_feature;
  await page.locator(`[data-cell="${feature} ${alarmed.id}"]`).click();
  const card = page.locator(`[data-feature="${feature}"]`);
  await page.waitForSelector(`.window-facts >> text="Window ${alarmed.id}"`);
  const cell = page.locator(`[data-cell="${feature} ${alarmed.id}"]`);
  assert.match(await cell.getAttribute('class'), /level-[34]/);
  assert.equal(await cell.textContent(), alarmed.drift.worst.toFixed(2));
  await card.locator('canvas').waitFor();
  assert.ok(await coloursOf(card.locator('canvas')) > 4, 'histogram drawn');
  await screenshot(page, 'drift');
  await card.locator('figcaption button').click();
  const counts = await card.locator('tbody td:nth-child(3)').allTextContents();
  const {features: histograms} = await getJson(base,
    `/api/v1/monitors/${monitor.name}/histograms?project=${project}&window=${alarmed.id}`);
  const expected = histograms.find((h) => h.feature === feature).current;
  assert.deepEqual(counts, expected.map((n) => n.toLocaleString('en')));
  await done();
});

test('arrow keys walk the heat map', async () => {
  const {page, done} = await openQuietly({path: '/drift'});
  const selected = page.locator('.heat td[aria-selected=true]');
  await selected.focus();
  const start = await selected.getAttribute('data-cell');
  await page.keyboard.press('ArrowLeft');
  const moved = await selected.getAttribute('data-cell');
  assert.notEqual(moved, start);
  const focused = await page.evaluate(() => document.activeElement.dataset.cell);
  assert.equal(focused, moved);
  await page.keyboard.press('ArrowRight');
  assert.equal(await selected.getAttribute('data-cell'), start);
  await done();
});

test('the audit verifies, searches, and replays a decision of the loop', async () => {
  const {page, done} = await openQuietly({path: '/audit'});
  await page.locator('.verify button').click();
  const head = (await overview()).head.sequence;
  await page.waitForSelector(`[data-testid=verify-result] >> text=${head.toLocaleString('en')}`);
  await page.locator('input[type=search]').fill('loop.promote');
  const {entries} = await getJson(base, '/api/v1/audit?action=loop.promote');
  await page.waitForFunction(
    (n) => document.querySelectorAll('table.audit tbody tr').length === n, entries.length);
  const open = page.locator(`[data-sequence="${entries[0].sequence}"]`);
  await open.focus();
  await page.keyboard.press('Enter');
  await page.locator('dialog[open] button.primary').click();
  await page.waitForSelector('[data-testid=replay-result] >> text=promote');
  await screenshot(page, 'audit_replay');
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({state: 'detached'});
  assert.equal(await page.evaluate(() => document.activeElement.dataset.sequence),
    String(entries[0].sequence), 'the focus returns to where it was');
  await screenshot(page, 'audit');
  await done();
});

test('the audit pages back to its first entry, newest first, without a gap', async () => {
  const {page, done} = await openQuietly({path: '/audit'});
  await page.waitForSelector('table.audit tbody tr');
  const older = page.locator('.more button');
  const rows = page.locator('table.audit tbody tr');
  while (await older.count() > 0) {
    const known = await rows.count();
    await older.click();
    await page.waitForFunction((n) => document.querySelector('.more button') === null ||
      document.querySelectorAll('table.audit tbody tr').length > n, known);
  }
  const sequences = (await page.locator('[data-sequence]').allTextContents()).map(Number);
  assert.equal(sequences.at(-1), 1);
  assert.deepEqual(sequences, sequences.map((_, i) => sequences[0] - i));
  await done();
});

test('Arabic turns the page and the walk around, keeps Latin digits, and is remembered', async () => {
  const {page, done} = await openQuietly();
  await page.locator('button[name=language]').click();
  await page.waitForSelector('html[dir=rtl][lang=ar]');
  await page.reload();
  await page.waitForSelector('html[dir=rtl] [data-station=alarms]');
  const first = await page.locator('[data-station=sources]').boundingBox();
  const last = await page.locator('[data-station=alarms]').boundingBox();
  assert.ok(first.x > last.x, 'the water runs from right to left');
  assert.equal(await page.locator('.brand').textContent(), 'فلج');
  await screenshot(page, 'home_ar');
  for (const [path, name] of [['/models', 'models_ar'], ['/drift', 'drift_ar'],
    ['/audit', 'audit_ar']]) {
    await page.goto(base + path);
    await page.waitForSelector('.panel');
    assert.doesNotMatch(await page.locator('body').innerText(), /[٠-٩۰-۹]/, path);
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(overflow, 0, `${path} does not scroll sideways`);
    await screenshot(page, name);
  }
  await done();
});

test('light and dark are readable on every page', async () => {
  for (const theme of ['light', 'dark']) {
    for (const path of ['/', '/models', '/drift', '/audit']) {
      const {page, done} = await openQuietly({path, theme});
      await page.waitForSelector('.panel');
      assert.deepEqual(await lowContrast(page), [], `${path} ${theme}`);
      await screenshot(page, `${theme}${path.replace('/', '_')}`);
      await done();
    }
  }
});

test('the theme switch changes the page and is remembered', async () => {
  const {page, done} = await openQuietly();
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement)
    .backgroundColor.match(/\d+/g).slice(0, 3).map(Number));
  const light = await ground();
  await page.locator('select[name=theme]').selectOption('dark');
  await page.waitForSelector('html[data-theme=dark]');
  const dark = await ground();
  assert.ok(Math.max(...dark) < 80 && Math.min(...light) > 200, `${light} → ${dark}`);
  await page.reload();
  await page.waitForSelector('html[data-theme=dark]');
  assert.deepEqual(await ground(), dark);
  await done();
});

test('the keyboard alone reaches content and pages', async () => {
  const {page, done} = await openQuietly();
  await page.waitForSelector('[data-station]');
  await page.keyboard.press('Tab');
  assert.match(await page.evaluate(() => document.activeElement.className), /skip/);
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'content');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.station), 'sources');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.panel table');
  await page.locator('nav a').nth(2).focus();
  await page.keyboard.press('Enter');
  await page.waitForSelector('.heat');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'content');
  assert.equal(await page.locator('nav a[aria-current=page]').count(), 1);
  await done();
});

test('a narrow screen shows the walk from top to bottom without sideways scrolling', async () => {
  for (const [path, name] of [['/', 'narrow_home'], ['/models', 'narrow_models'],
    ['/drift', 'narrow_drift'], ['/audit', 'narrow_audit']]) {
    const {page, done} = await openQuietly({path, width: 400, height: 800});
    await page.waitForSelector('.panel');
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(overflow, 0, path);
    await screenshot(page, name);
    await done();
  }
});

// What a person may not do is not offered, and not asked for: the page of a viewer, of a project's
// auditor, of somebody without a role, and of an administrator, over the real `falaj serve`.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {launch, lowContrast, openPage, screenshot} from './browser.mjs';
import {startProgram, temporaryFolder} from './program.mjs';

const kPassword = 'correct horse battery';
const data = temporaryFolder();
let browser;
let program;
let outside;  // Requests without a page.

async function ask(method, path, body, name = 'root', headers = {}) {
  const basic = Buffer.from(`${name}:${kPassword}`).toString('base64');
  const reply = await outside.fetch(program.base + path, {
    method, data: body, headers: {authorization: `Basic ${basic}`, ...headers},
  });
  return {status: reply.status(), body: await reply.text()};
}

async function good(...words) {
  const {status, body} = await ask(...words);
  assert.ok(status < 300, `${words[0]} ${words[1]}: ${status} ${body}`);
}

const object = (kind, name, spec, project) => ({
  apiVersion: 'falaj.dev/v1', kind, metadata: {name, ...(project && {project})}, spec,
});

before(async () => {
  program = await startProgram(data.folder, 0, 'serve');
  browser = await launch();
  outside = (await browser.newContext({ignoreHTTPSErrors: true})).request;
  const secret = new URL(program.setup()).hash.slice(1);
  await outside.post(program.base + '/api/v1/setup',
    {data: {secret, name: 'root', password: kPassword}});
  for (const name of ['vi', 'audi', 'nemo', 'oncall']) {
    await good('POST', '/api/v1/users', {name, password: kPassword});
  }
  const grant = (name, role, on) => object('Grant', name, {to: [`user:${name}`], role, on});
  await good('PUT', '/api/v1/objects', {objects: [
    object('Project', 'pay', {zone: 'local'}),
    object('Model', 'fraud', {}, 'pay'),
    object('Deployment', 'fraud', {model: 'fraud'}, 'pay'),
    grant('vi', 'viewer', {project: 'pay'}),
    grant('audi', 'auditor', {project: 'pay'}),
    grant('oncall', 'break-glass', 'platform'),
  ]});
}, {timeout: 120_000});

after(async () => {
  await browser?.close();
  await program?.stop();
  data.remove();
});

// A refused call would be a fault here: the page knows before it asks.
async function signIn(name, path = '/', options = {}) {
  const opened = await openPage(browser, program.base,
    {path, ignoreHTTPSErrors: true, ...options});
  await opened.page.fill('input[name=name]', name);
  await opened.page.fill('input[name=password]', kPassword);
  await opened.page.click('form button');
  await opened.page.waitForSelector('button[name=sign-out]');
  assert.equal(await opened.page.locator('.who bdi').textContent(), name);
  return opened;
}

const pagesOf = async (page) => await page.locator('nav a').evaluateAll(
  (links) => links.map((link) => new URL(link.href).pathname));

test('an administrator is offered everything', async () => {
  const {page, faults, close} = await signIn('root', '/?project=pay');
  assert.deepEqual(await pagesOf(page), ['/', '/models', '/drift', '/audit']);
  await page.waitForSelector('.activity li');
  await page.waitForSelector('.ledger');
  await page.click('nav a[href^="/models"]');
  await page.waitForSelector('[data-deployment=fraud] .try-it');
  await page.click('nav a[href^="/audit"]');
  await page.waitForSelector('.verify button');
  assert.deepEqual(faults, []);
  await close();
});

test('a viewer sees the project, and neither its audit nor what would change anything', async () => {
  const {page, faults, close} = await signIn('vi');
  assert.deepEqual(await pagesOf(page), ['/', '/models', '/drift']);
  assert.equal(await page.locator('select[name=project]').inputValue(), 'pay');
  await page.waitForSelector('h1.headline');
  for (const hidden of ['.activity', '.ledger', '.teach', '.verify']) {
    assert.equal(await page.locator(hidden).count(), 0, hidden);
  }
  await screenshot(page, 'rights-viewer-home');
  await page.click('nav a[href^="/models"]');
  await page.waitForSelector('[data-deployment=fraud]');
  assert.equal(await page.locator('[data-deployment=fraud] .try-it').count(), 0);
  await screenshot(page, 'rights-viewer-models');
  await page.goto(program.base + '/audit?project=pay');
  assert.match(await page.locator('.notice').textContent(), /Nothing here is yours to see/);
  assert.equal(await page.locator('table').count(), 0);
  await page.click('button[name=sign-out]');
  await page.waitForSelector('form.sign');
  assert.deepEqual(faults, []);
  await close();
});

test('an auditor of one project reads its log, and verifies none', async () => {
  const {page, faults, close} = await signIn('audi', '/audit?project=pay');
  await page.waitForSelector('table.audit');
  const shown = await page.locator('table.audit td.object').allTextContents();
  assert.ok(shown.length > 0 && shown.every((text) => text.includes('pay')), shown.join());
  assert.equal(await page.locator('.verify').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('somebody without a role is told so, in both languages', async () => {
  const {page, faults, close} = await signIn('nemo', '/?project=pay',
    {expected: ['status of 403']});
  await page.waitForSelector('.notice');
  assert.deepEqual(await pagesOf(page), []);
  assert.doesNotMatch(await page.locator('body').textContent(), /fraud/);
  await page.click('button[name=language]');
  assert.deepEqual(await lowContrast(page), []);
  await screenshot(page, 'rights-nobody-ar');
  assert.deepEqual(faults, []);
  await close();
});

test('a broken glass is on everybody’s home page until an administrator closes it', async () => {
  const path = '/api/v1/objects/Model/fraud?project=pay';
  assert.equal((await ask('GET', path, undefined, 'oncall')).status, 403);
  await good('GET', path, undefined, 'oncall', {'X-Falaj-Reason': 'a deployment denies everyone'});
  const viewer = await signIn('vi', '/?project=pay');
  await viewer.page.waitForSelector('[data-testid=emergencies] li');
  assert.match(await viewer.page.locator('h1').textContent(), /glass was broken/);
  assert.equal(await viewer.page.locator('[data-testid=emergencies] button').count(), 0);
  const root = await signIn('root', '/?project=pay');
  await root.page.waitForSelector('[data-testid=emergencies] li');
  assert.deepEqual(await lowContrast(root.page), []);
  await screenshot(root.page, 'rights-emergency');
  await root.page.click('[data-testid=emergencies] button');
  await root.page.waitForSelector('[data-testid=emergencies]', {state: 'detached'});
  await viewer.page.waitForSelector('[data-testid=emergencies]', {state: 'detached'});
  assert.deepEqual([...viewer.faults, ...root.faults], []);
  await viewer.close();
  await root.close();
});

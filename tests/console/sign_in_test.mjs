// The door: setup link, password, sign-out, in both languages, over the real `falaj serve`.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {launch, lowContrast, openPage, screenshot} from './browser.mjs';
import {startProgram, temporaryFolder} from './program.mjs';

const kPassword = 'correct horse battery';
const data = temporaryFolder();
let browser;
let program;

before(async () => {
  program = await startProgram(data.folder, 0, 'serve');
  browser = await launch();
}, {timeout: 120_000});

after(async () => {
  await browser?.close();
  await program?.stop();
  data.remove();
});

// The browser itself reports refused calls; those are what these tests are about.
async function open(options = {}) {
  return await openPage(browser, program.base,
    {ignoreHTTPSErrors: true, expected: ['status of 401', 'status of 422', 'status of 429'], ...options});
}

async function fill(page, name, password) {
  await page.fill('input[name=name]', name);
  await page.fill('input[name=password]', password);
  await page.click('form button');
}

async function signedIn(page) {
  await page.waitForSelector('button[name=sign-out]');
  return await page.locator('.who bdi').textContent();
}

test('before setup the door says so and lets nobody in', async () => {
  const {page, faults, close} = await open({path: '/models'});
  assert.match(await page.locator('.notice').textContent(), /falaj serve printed/);
  await fill(page, 'admin', 'password1234');
  await page.waitForSelector('text=FJ-7010');
  assert.equal(await page.locator('nav').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('the setup link makes the first administrator and signs in', async () => {
  const link = new URL(program.setup());
  const {page, faults, close} = await open({path: link.pathname + link.hash});
  await screenshot(page, 'setup');
  await fill(page, 'root', kPassword);
  assert.equal(await signedIn(page), 'root');
  assert.equal(new URL(page.url()).hash, '');  // The spent secret left the address.
  const [cookie] = await page.context().cookies();
  assert.equal(cookie.name, '__Host-falaj');
  assert.ok(cookie.httpOnly && cookie.secure && cookie.sameSite === 'Strict');
  assert.equal(await page.evaluate(() => document.cookie), '');
  // A change by the page carries its CSRF token: the audit's verification is one.
  await page.click('nav a[href^="/audit"]');
  await page.click('.verify button');
  await page.waitForSelector('[data-testid=verify-result] .ok');
  assert.deepEqual(faults, []);
  await close();
});

test('a wrong password is refused; the right one opens the page that was asked for', async () => {
  const {page, faults, close} = await open({path: '/audit'});
  await fill(page, 'root', 'wrong horse battery');
  await page.waitForSelector('text=FJ-7011');
  await fill(page, 'root', kPassword);
  await signedIn(page);
  assert.equal(new URL(page.url()).pathname, '/audit');
  await page.click('button[name=sign-out]');
  await page.waitForSelector('form.sign');
  await page.reload();
  await page.waitForSelector('form.sign');
  assert.equal((await page.context().cookies()).length, 0);
  assert.deepEqual(faults, []);
  await close();
});

test('the door speaks Arabic, reads from the right, and is legible in both themes', async () => {
  for (const theme of ['light', 'dark']) {
    const {page, faults, close} = await open({language: 'ar', theme});
    assert.equal(await page.locator('h1').textContent(), 'تسجيل الدخول');
    assert.equal(await page.evaluate(() => document.documentElement.dir), 'rtl');
    assert.deepEqual(await lowContrast(page), []);
    await screenshot(page, `sign-in-ar-${theme}`);
    await page.click('button[name=language]');
    assert.equal(await page.locator('h1').textContent(), 'Sign in');
    assert.deepEqual(faults, []);
    await close();
  }
});

// A headless Chromium whose pages report every error, policy violation and foreign request.
import {mkdirSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

// The console's own package list is the one place where versions are pinned.
const require = createRequire(new URL('../../console/package.json', import.meta.url));
const {chromium} = require('playwright-core');

const screenshots = process.env.FALAJ_SCREENSHOTS ?? join(tmpdir(), 'falaj-screenshots');

export async function launch() {
  return await chromium.launch({
    executablePath: process.env.FALAJ_CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
      '--disable-background-networking', '--disable-component-update', '--disable-sync',
      '--disable-quic', '--no-first-run',
    ],
  });
}

// `expected`: texts of errors that the test itself causes, such as a refused connection.
export async function openPage(browser, base, options = {}) {
  const {path = '/', language = 'en', theme = 'light', width = 1366, height = 900} = options;
  const context = await browser.newContext({
    viewport: {width, height}, locale: 'en-GB', timezoneId: 'Asia/Dubai',
    reducedMotion: 'reduce', ignoreHTTPSErrors: options.ignoreHTTPSErrors ?? false,
  });
  const faults = [];
  const expected = options.expected ?? [];
  const report = (text) => {
    if (!expected.some((known) => text.includes(known))) faults.push(text);
  };
  const host = new URL(base).host;
  context.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol !== 'data:' && url.host !== host) report(`foreign request ${request.url()}`);
  });
  await context.addInitScript(([chosenLanguage, chosenTheme]) => {
    // Only the first time: a test changes them by the switches and reloads.
    if (!localStorage.getItem('falaj.language')) {
      localStorage.setItem('falaj.language', chosenLanguage);
      localStorage.setItem('falaj.theme', chosenTheme);
    }
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI}`);
    });
  }, [language, theme]);
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on('pageerror', (error) => report(`exception ${error.message}`));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) {
      report(`${message.type()} ${message.text()} ${message.location().url}`);
    }
  });
  await page.goto(base + path);
  await page.waitForSelector('h1');
  return {page, faults, close: () => context.close()};
}

export async function screenshot(page, name) {
  mkdirSync(screenshots, {recursive: true});
  await page.screenshot({path: join(screenshots, `${name}.png`), fullPage: true});
}

// How many distinct colours a canvas shows: 1 means blank.
export async function coloursOf(canvas) {
  return await canvas.evaluate((element) => {
    const {data} = element.getContext('2d').getImageData(0, 0, element.width, element.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) {
      seen.add((data[i] << 24) | (data[i + 1] << 16) | (data[i + 2] << 8) | data[i + 3]);
    }
    return seen.size;
  });
}

// Texts whose contrast with what is behind them is under WCAG AA (4.5, or 3 for large text).
export async function lowContrast(page) {
  return await page.evaluate(() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const over = (colours) => {
      canvas.clearRect(0, 0, 1, 1);
      for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
      return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const luminance = (rgb) => {
      const [r, g, b] = rgb.map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
      const layers = [];
      for (let at = element; at; at = at.parentElement) {
        layers.unshift(getComputedStyle(at).backgroundColor);
      }
      return layers;
    };
    const faults = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      const text = walker.currentNode.textContent.trim();
      if (text === '' || element.closest('svg, .unseen, noscript, option, .skip')) continue;
      if (!element.checkVisibility()) continue;
      const style = getComputedStyle(element);
      const layers = behind(element);
      const [a, b] = [luminance(over(layers)), luminance(over([...layers, style.color]))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) faults.push(`${ratio.toFixed(2)} "${text.slice(0, 40)}"`);
    }
    return faults;
  });
}

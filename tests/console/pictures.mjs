// usage: FALAJ_BINARY=build/release/falaj node tests/console/pictures.mjs
// Draws the pictures of the documentation anew, from the demo: docs/start/{console,drift}.png.
import {writeFileSync} from 'node:fs';
import {crc32, deflateSync} from 'node:zlib';

import {launch, openPage} from './browser.mjs';
import {runDemo, startProgram, temporaryFolder} from './program.mjs';

const kWidth = 1280;
const kColours = 256;
const kClose = 40;

// Colours as 24-bit numbers; those that cover most are kept, unless one close by is kept already,
// and the others take the nearest of them.
function paletteOf(pixels) {
  const seen = new Map();
  for (const colour of pixels) seen.set(colour, (seen.get(colour) ?? 0) + 1);
  const byUse = [...seen].sort((a, b) => b[1] - a[1]).map(([colour]) => colour);
  const apart = (a, b) => ((a >> 16) - (b >> 16)) ** 2 +
    ((a >> 8 & 255) - (b >> 8 & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2;
  const kept = [];
  for (const colour of byUse) {
    if (kept.length === kColours) break;
    if (kept.every((other) => apart(other, colour) > kClose)) kept.push(colour);
  }
  const index = new Map(byUse.map((colour) => [colour, kept.reduce(
    (best, _, i) => apart(kept[i], colour) < apart(kept[best], colour) ? i : best, 0)]));
  return {kept, index};
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}

function palettePng(width, height, pixels) {
  const {kept, index} = paletteOf(pixels);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);  // Eight bits an entry, with a palette.
  const rows = Buffer.alloc((width + 1) * height);
  pixels.forEach((colour, i) => {
    rows[Math.floor(i / width) * (width + 1) + 1 + i % width] = index.get(colour);
  });
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'), chunk('IHDR', header),
    chunk('PLTE', Buffer.from(kept.flatMap((c) => [c >> 16, c >> 8 & 255, c & 255]))),
    chunk('IDAT', deflateSync(rows, {level: 9})), chunk('IEND', Buffer.alloc(0)),
  ]);
}

// The pixels of a screenshot, read back by the browser that took it.
async function pixelsOf(page, png) {
  const read = await page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const {data} = context.getImageData(0, 0, image.width, image.height);
    let text = '';
    for (let i = 0; i < data.length; i += 4) {
      text += String.fromCharCode(data[i], data[i + 1], data[i + 2]);
    }
    return {width: image.width, height: image.height, text: btoa(text)};
  }, png.toString('base64'));
  const bytes = Buffer.from(read.text, 'base64');
  const pixels = Array.from({length: read.width * read.height},
    (_, i) => bytes[3 * i] << 16 | bytes[3 * i + 1] << 8 | bytes[3 * i + 2]);
  return palettePng(read.width, read.height, pixels);
}

async function draw(browser, base, {path, name, ready, until}) {
  const {page, close} = await openPage(browser, base, {path, width: kWidth, height: 860});
  await page.waitForSelector('.link.live');
  await page.waitForSelector(ready);
  const height = until ? await page.locator(until).evaluate(
    (element) => Math.ceil(element.getBoundingClientRect().bottom + scrollY) + 24) : undefined;
  const png = await page.screenshot({fullPage: true,
    ...(height ? {clip: {x: 0, y: 0, width: kWidth, height}} : {})});
  const small = await pixelsOf(page, png);
  writeFileSync(new URL(`../../docs/start/${name}.png`, import.meta.url), small);
  console.log(`docs/start/${name}.png: ${small.length} bytes`);
  await close();
}

const data = temporaryFolder();
const given = process.env.FALAJ_CONSOLE_URL;
const program = given ? undefined : await startProgram(data.folder);
const base = given ?? program.base;
const browser = await launch();
try {
  if (program) await runDemo(base);
  await draw(browser, base, {path: '/', name: 'console', ready: '.gate', until: '.two'});
  await draw(browser, base,
    {path: '/drift', name: 'drift', ready: '.histogram.chosen canvas', until: '.histogram.chosen'});
} finally {
  await browser.close();
  await program?.stop();
  data.remove();
}

// Finishes dist/: a compressed twin of every file, a manifest for tools/embed_console.py, and the
// check that the first page stays small.
import {createHash} from 'node:crypto';
import {readFileSync, readdirSync, writeFileSync} from 'node:fs';
import {extname, join, relative, sep} from 'node:path';
import {fileURLToPath} from 'node:url';
import {brotliCompressSync, constants, gzipSync} from 'node:zlib';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const kHardLimit = 80_000;
const budget = Math.min(kHardLimit,
  JSON.parse(readFileSync(join(root, 'budget.json'), 'utf8')).first_page_br_bytes);

const kTypes = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

function files(folder) {
  return readdirSync(folder, {withFileTypes: true, recursive: true})
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name)).sort();
}

function pack(file) {
  const bytes = readFileSync(file);
  const type = kTypes[extname(file)];
  if (!type) throw new Error(`${file}: no content type is known for it, add one to pack.mjs`);
  const br = brotliCompressSync(bytes, {params: {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  }});
  const gzip = gzipSync(bytes, {level: 9});
  writeFileSync(`${file}.br`, br);
  writeFileSync(`${file}.gz`, gzip);
  return {
    path: '/' + relative(dist, file).split(sep).join('/'),
    content_type: type,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    bytes: bytes.length, gzip_bytes: gzip.length, br_bytes: br.length,
  };
}

// What a browser fetches for the first page: the document and what it names.
function firstPage(packed) {
  const html = readFileSync(join(dist, 'index.html'), 'utf8');
  const named = new Set([...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map((m) => m[1]));
  return packed.filter((f) => f.path === '/index.html' || named.has(f.path));
}

const packed = files(dist).filter((f) => extname(f) in kTypes).map(pack);
writeFileSync(join(dist, 'manifest.json'), JSON.stringify({files: packed}, null, 2) + '\n');

const first = firstPage(packed).reduce((sum, file) => sum + file.br_bytes, 0);
const all = packed.reduce((sum, file) => sum + file.br_bytes, 0);
console.log(`console: first page ${first} bytes (br), everything ${all}; ` +
  `budget ${budget}`);
if (first > budget) {
  console.error('console: the first page grew over budget.json; make it smaller, or raise the ' +
    `budget with a reason (never over ${kHardLimit})`);
  process.exit(1);
}

// Starts the real program in a folder of its own and stops it again.
import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const binary = process.env.FALAJ_BINARY;

// The program refuses settings that it does not know, and must not take over those of a person.
const environment = Object.fromEntries(Object.entries(process.env)
  .filter(([name]) => !name.startsWith('FALAJ_') || name === 'FALAJ_LIBRARY_DIR'));

export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'falaj-console-test-'));
  return {folder, remove: () => rmSync(folder, {recursive: true, force: true})};
}

// Resolves with the base URL once the program says that it is ready. Port 0 takes a free one.
// `mode` is the command: 'dev', or 'serve', which also tells its setup link.
export function startProgram(folder, port = 0, mode = 'dev') {
  if (!binary) throw new Error('FALAJ_BINARY must name the program: run ./dev test console');
  const child = spawn(binary,
    [mode, '--data', folder, '--port', String(port), '--grpc-port', '0'],
    {stdio: ['ignore', 'pipe', 'pipe'], env: environment});
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let said = '';
  const url = new Promise((resolve, reject) => {
    child.stderr.on('data', (bytes) => { said += bytes; });
    child.stdout.on('data', (bytes) => {
      said += bytes;
      const ready = /^ready (https?:\/\/\S+)/m.exec(said);
      if (ready) resolve(ready[1]);
    });
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`falaj ${mode} ended with ${code}: ${said}`)));
  });
  return url.then((base) => ({
    base,
    setup: () => /Setup\s+(\S+)/.exec(said)?.[1],
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  }));
}

export function runDemo(base) {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, ['demo', '--server', base, '-o', 'json'],
      {stdio: ['ignore', 'pipe', 'pipe'], env: environment});
    let out = '';
    let errors = '';
    child.stdout.on('data', (bytes) => { out += bytes; });
    child.stderr.on('data', (bytes) => { errors += bytes; });
    child.once('error', reject);
    child.once('exit', (code) => code === 0 ? resolve(JSON.parse(out)) :
      reject(new Error(`falaj demo ended with ${code}: ${errors}${out}`)));
  });
}

export async function getJson(base, path) {
  const response = await fetch(base + path);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return await response.json();
}

// Runs src/**/*.test.ts: checked by the compiler, bundled, then handed to Node's own runner.
import {spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';

import {build} from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const run = (program, args) => {
  const {status} = spawnSync(program, args, {cwd: root, stdio: 'inherit'});
  if (status !== 0) process.exit(status ?? 1);
};

run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.tests.json']);
const tests = readdirSync(join(root, 'src'), {recursive: true})
  .filter((name) => name.endsWith('.test.ts')).map((name) => join(root, 'src', name));
const out = mkdtempSync(join(tmpdir(), 'falaj-console-'));
try {
  await build({
    entryPoints: tests, outdir: out, outExtension: {'.js': '.mjs'}, bundle: true,
    platform: 'node', format: 'esm', logLevel: 'warning',
  });
  run(process.execPath, ['--test', '--test-reporter=spec',
    ...readdirSync(out, {recursive: true}).filter((f) => f.endsWith('.mjs'))
      .map((f) => join(out, f))]);
} finally {
  rmSync(out, {recursive: true});
}

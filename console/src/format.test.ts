import assert from 'node:assert/strict';
import {test} from 'node:test';

import {
  binLabels, edgeLabel, formatAgo, formatCount, formatMs, formatPercent, formatShort, formatTime,
  formatValue, shares, shortenNumbers,
} from './format';

test('latency picks the unit that keeps the number readable', () => {
  assert.equal(formatMs(0), '0 ms');
  assert.equal(formatMs(0.2841), '284 µs');
  assert.equal(formatMs(0.0124), '12.4 µs');
  assert.equal(formatMs(3.14159), '3.14 ms');
  assert.equal(formatMs(1500), '1.50 s');
  assert.equal(formatMs(NaN), '–');
});

test('counts are grouped, and shortened only when asked', () => {
  assert.equal(formatCount(1284000), '1,284,000');
  assert.equal(formatShort(9999), '9,999');
  assert.equal(formatShort(1284000), '1.3M');
  assert.equal(formatPercent(0.034), '3.4%');
  assert.equal(formatPercent(0.43), '43%');
});

test('values never hide their size', () => {
  assert.equal(formatValue(42), '42');
  assert.equal(formatValue(0.000012), '1.20e-5');
  assert.equal(formatValue(3.14159265), '3.1416');
  assert.equal(formatValue(-1e12), '-1.00e+12');
});

test('times use Latin digits in both languages', () => {
  const now = Date.parse('2026-03-01T12:00:00Z');
  assert.equal(formatAgo('2026-03-01T11:57:00Z', now, 'en'), '3 minutes ago');
  assert.match(formatAgo('2026-03-01T11:57:00Z', now, 'ar'), /3/);
  assert.doesNotMatch(formatTime('2026-03-01T11:57:00Z', 'ar'), /[٠-٩]/);
  // A server's clock a little ahead is not the future.
  assert.equal(formatAgo('2026-03-01T12:00:02Z', now, 'en'), 'now');
  assert.equal(formatAgo('nonsense', now, 'en'), '–');
});

test('a histogram has one label per count: inner bins, open ends, missing', () => {
  assert.deepEqual(binLabels([1, 2.5], 'missing'),
    ['(−∞, 1]', '(1, 2.5]', '(2.5, ∞)', 'missing']);
  assert.deepEqual(binLabels([], 'missing'), ['(−∞, ∞)', 'missing']);
});

test('an edge just under zero reads as under 0, and the bin after it as 0', () => {
  const edges = [-1.4e-45, 0, 1];
  assert.deepEqual(binLabels(edges, 'missing'), ['(−∞, 0)', '0', '(0, 1]', '(1, ∞)', 'missing']);
  assert.deepEqual(binLabels([-2, -1.4e-45, 3], 'missing').slice(1, 3), ['(-2, 0)', '[0, 3]']);
  assert.deepEqual([0, 1, 3].map((i) => edgeLabel(edges, i)), ['< 0', '≤ 0', '> 1']);
  assert.equal(edgeLabel([0.96805], 0), '≤ 0.968');
});

test('long fractions in a sentence are shortened, everything else stays', () => {
  assert.equal(shortenNumbers('AUC 0.8159880058965425 of version 2 on 6000 rows: 0.002.'),
    'AUC 0.816 of version 2 on 6000 rows: 0.002.');
  assert.equal(shortenNumbers('took 1234.56789 s, 01M7HJ1.23456.7'),
    'took 1234.6 s, 01M7HJ1.23456.7');
});

test('shares of nothing are zero, not NaN', () => {
  assert.deepEqual(shares([1, 3]), [0.25, 0.75]);
  assert.deepEqual(shares([0, 0]), [0, 0]);
});

import assert from 'node:assert/strict';
import {test} from 'node:test';

import type {AuditEntry, DeclaredObject, Overview} from './api/types';
import {families, matches, merge} from './audit_list';
import {driftLevel} from './drift_scale';
import {ar} from './i18n/ar';
import {en} from './i18n/en';
import {keyFields, keyValue} from './key_fields';
import {latencySeries} from './latency_series';
import {backoffMs} from './live';
import {along, numberOf} from './profile_strip';
import {allows} from './rights';
import {hrefOf, parsePlace} from './router';
import {headlineOf} from './walk/headline';
import {layOut, reachOf} from './walk/layout';
import {stationsOf} from './walk/stations';

test('a colour says drifted exactly when the score is over the threshold', () => {
  assert.equal(driftLevel(0.2, 0.2), 2);
  assert.equal(driftLevel(0.2000001, 0.2), 3);
  assert.equal(driftLevel(0.61, 0.2), 4);
  assert.equal(driftLevel(0.01, 0.2), 0);
  assert.equal(driftLevel(NaN, 0.2), 0);
});

function leaves(value: unknown, path: string, into: Map<string, unknown>): Map<string, unknown> {
  if (typeof value === 'object' && value !== null) {
    for (const [name, inner] of Object.entries(value)) leaves(inner, `${path}.${name}`, into);
  } else {
    into.set(path, value);
  }
  return into;
}

test('no Arabic string is empty or still English', () => {
  const arabic = leaves(ar, '', new Map());
  for (const [path, text] of leaves(en, '', new Map())) {
    const other = arabic.get(path);
    assert.notEqual(other, undefined, path);
    if (typeof text !== 'string' || ['.otherLanguage'].includes(path)) continue;
    assert.notEqual(other, '', path);
    if (!['.models.p99', '.columns.p99'].includes(path)) assert.match(String(other), /[؀-ۿ]/, path);
  }
});

test('Arabic counts versions in its own forms', () => {
  assert.equal(ar.home.versions(1, '1'), 'إصدار واحد');
  assert.equal(ar.home.versions(2, '2'), 'إصداران');
  assert.equal(ar.home.versions(5, '5'), '5 إصدارات');
  assert.equal(ar.home.versions(30, '30'), '30 إصدارًا');
});

test('silence is a gap in the latency, never a zero or a slope', () => {
  const at = (t: number, rps: number) => ({t, p50_ms: rps && 2, p99_ms: rps && 3, rps});
  const series = latencySeries([at(1000, 9), at(2000, 8), at(3000, 0), at(60_000, 1)]);
  assert.deepEqual(series.p50, [2, 2, null, 2]);
  assert.deepEqual(series.seconds.map(Math.round), [1, 2, 2, 60]);
  assert.deepEqual(latencySeries([at(1000, 0)]).seconds, []);
});

const declared = (kind: string, name: string, spec: DeclaredObject['spec']): DeclaredObject =>
  ({kind, metadata: {name}, spec});

test('key fields follow service, views and entities, each once', () => {
  const services = [declared('FeatureService', 's',
    {features: ['activity', {merchant: ['risk']}, 'activity@v2']})];
  const views = [declared('FeatureView', 'activity', {entity: 'customer'}),
    declared('FeatureView', 'merchant', {entity: 'shop'})];
  const entities = [
    declared('Entity', 'customer', {keys: [{name: 'customer_id', type: 'int64'}]}),
    declared('Entity', 'shop', {keys: [{name: 'shop', type: 'string'}]})];
  assert.deepEqual(keyFields('s', services, views, entities),
    [{name: 'customer_id', type: 'int64'}, {name: 'shop', type: 'string'}]);
  assert.deepEqual(keyFields('other', services, views, entities), []);
});

test('a key that does not fit its type is refused before it is sent', () => {
  const id = {name: 'id', type: 'int64'};
  assert.equal(keyValue(id, ' 42 '), 42);
  assert.equal(keyValue(id, '4.2'), undefined);
  assert.equal(keyValue(id, ''), undefined);
  assert.equal(keyValue(id, '9007199254740993'), undefined);  // Would be rounded on the way.
  assert.equal(keyValue({name: 'n', type: 'string'}, 'a b'), 'a b');
});

test('the delay before a reconnect doubles, is spread and is capped', () => {
  assert.equal(backoffMs(0, 1), 500);
  assert.equal(backoffMs(0, 0), 250);
  assert.equal(backoffMs(3, 1), 4000);
  assert.equal(backoffMs(500, 1), 20_000);
});

test('an address names page, project and station, both ways', () => {
  assert.equal(hrefOf({page: 'drift', project: 'a b'}), '/drift?project=a+b');
  assert.deepEqual(parsePlace('/drift', '?project=a+b'),
    {page: 'drift', project: 'a b', show: ''});
  assert.equal(parsePlace('/models/', '').page, 'models');
  assert.equal(parsePlace('/nowhere', '').page, 'home');
});

const overview = (change: Partial<Overview['counts']>, more: Partial<Overview> = {}): Overview => ({
  counts: {
    sources: 1, feature_views: 1, rows: 10, training_sets: 1, runs: 1, models: 1,
    model_versions: 2, deployments: 1, alarms_open: 0, alarms: 1, emergencies_open: 0, audit_entries: 9,
    ...change,
  },
  running: [], head: {sequence: 9, hash: 'x'}, latency: [],
  deployments: [{
    project: 'p', name: 'fraud', model: 'fraud', version: 2, state: 'ready', error: '',
    requests: 5, errors: 0, p50_ms: 0.3, p99_ms: 1, since: '',
  }],
  ...more,
});

test('the headline says the most pressing thing', () => {
  const promoted = [{policy: 'l', phase: 'watching', last_action: {kind: 'promote', reason: 'r'}}];
  const gate = {evaluated: true, champion_version: 1, candidate_version: 2,
    champion_auc: 0.54357, candidate_auc: 0.81598, gate_rows: 6000};
  assert.equal(headlineOf(overview({}), [{...promoted[0]!, snapshot: gate}], '', en).reason,
    'On 6,000 newer rows, v2 reaches AUC 0.816; v1 reaches 0.544.');
  assert.equal(headlineOf(overview({}), promoted, '', en).reason, 'r');
  const say = (o: Overview) => headlineOf(o, promoted, 'amount', en).text;
  assert.equal(say(overview({})), 'fraud v2 took over and is serving.');
  assert.equal(say(overview({alarms_open: 1})), 'The world has moved: amount drifted.');
  assert.equal(say(overview({alarms_open: 1, emergencies_open: 1})),
    'The glass was broken: somebody used emergency rights.');
  const running = [{run: 'r', progress: 0.4, experiment: 'fraud_train'}];
  assert.equal(say(overview({alarms_open: 1}, {running})), 'fraud_train is training, 40% done.');
  assert.equal(headlineOf(overview({}), [], '', en).text, 'fraud v2 is serving.');
  const nothing = overview({sources: 0, feature_views: 0, rows: 0}, {deployments: []});
  assert.equal(headlineOf(nothing, [], '', en).tone, 'dry');
});

test('the page offers what the caller may do, and all of it while that is not known', () => {
  const known = {platform: ['keys.read'], projects: {
    pay: {all: ['objects.read'], some: ['objects.read', 'models.read']},
  }};
  assert.ok(allows(undefined, 'audit.read', 'pay'));
  assert.ok(allows(known, 'keys.read') && allows(known, 'keys.read', 'shop'));
  assert.ok(allows(known, 'models.read', 'pay') && !allows(known, 'models.read', 'pay', 'all'));
  assert.ok(allows(known, 'objects.read', 'pay', 'all'));
  assert.ok(!allows(known, 'models.read') && !allows(known, 'models.read', 'shop'));
  assert.ok(!allows(known, 'audit.read', 'pay'));
});

test('an open alarm turns its basin to clay, an empty one is dry', () => {
  const tones = (o: Overview) => Object.fromEntries(stationsOf(o, en).map((s) => [s.id, s.tone]));
  assert.equal(tones(overview({alarms_open: 1}))['alarms'], 'clay');
  assert.equal(tones(overview({}))['alarms'], 'water');
  assert.equal(tones(overview({runs: 0}))['runs'], 'dry');
});

test('the walk is mirrored for right-to-left and keeps inside its width', () => {
  for (const width of [400, 1000, 1900]) {
    const left = layOut(width, 7, 3, 'ltr');
    const right = layOut(width, 7, 3, 'rtl');
    left.stations.forEach((at, i) => {
      assert.ok(Math.abs(at.x + right.stations[i]!.x - width) < 1e-9);
      assert.ok(at.x - left.radius >= 0 && at.x + left.radius <= width);
    });
  }
  assert.equal(layOut(400, 7, 3, 'ltr').shape, 'down');
  assert.equal(layOut(1000, 7, 3, 'ltr').shape, 'across');
});

test('the water reaches as far as the walk has come', () => {
  const picture = layOut(1000, 7, 3, 'ltr');
  assert.equal(reachOf(picture, -1, 'ltr').width, 0);
  assert.equal(reachOf(picture, 2, 'ltr').width, picture.stations[2]!.x);
  assert.equal(reachOf(picture, 6, 'ltr').width, 1000);
  const mirrored = layOut(1000, 7, 3, 'rtl');
  assert.equal(reachOf(mirrored, 2, 'rtl').x, mirrored.stations[2]!.x);
  assert.equal(reachOf(layOut(400, 7, 3, 'ltr'), 0, 'ltr').height, 56);
});

const entry = (sequence: number, action: string): AuditEntry => ({
  sequence, at: '', actor: 'user:dev', project: 'p', action, object: 'Model/p/fraud',
  request_id: '', detail: {reason: 'AUC grew'}, hash: 'ab',
});

test('audit pages merge newest first without doubles, and are searched by every word', () => {
  const merged = merge([entry(3, 'loop.keep')], [entry(4, 'object.apply'), entry(3, 'loop.keep')]);
  assert.deepEqual(merged.map((e) => e.sequence), [4, 3]);
  assert.deepEqual(families(merged), ['loop.', 'object.']);
  assert.ok(matches(merged[0]!, 'auc FRAUD'));
  assert.ok(!matches(merged[0]!, 'auc missing'));
});

test('a strip places numbers and times between its ends, and nothing where there is no length', () => {
  assert.equal(along(5, 0, 10), 0.5);
  assert.equal(along(50, 0, 10), 1);
  assert.equal(along(5, 5, 5), undefined);
  assert.equal(along(undefined, 0, 1), undefined);
  assert.equal(numberOf('1970-01-01T00:00:01Z'), 1000);
  assert.equal(numberOf('Dubai'), undefined);
  assert.equal(numberOf(null), undefined);
});

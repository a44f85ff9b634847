// The one sentence at the top: the most important thing that is true now. Pure.

import type {Overview, PolicyStatus} from '../api/types';
import {formatCount, formatFixed, formatPercent, shortenNumbers} from '../format';
import type {Strings} from '../i18n/en';

export interface Headline {
  text: string;
  reason: string;  // Why, or ''.
  tone: 'calm' | 'busy' | 'clay' | 'dry';
}

// Why a policy did what it last did: the gate in the reader's language, anything else in the
// platform's own words.
export function reasonOf(policy: PolicyStatus, t: Strings): string {
  const {last_action: action, snapshot} = policy;
  if (action.kind === 'promote' && snapshot?.evaluated) {
    return t.home.gatePassed(formatCount(snapshot.gate_rows),
      snapshot.candidate_version, formatFixed(snapshot.candidate_auc, 3),
      snapshot.champion_version, formatFixed(snapshot.champion_auc, 3));
  }
  return shortenNumbers(action.reason);
}

export function headlineOf(
  overview: Overview, policies: PolicyStatus[], driftedFeature: string, t: Strings,
): Headline {
  const {counts} = overview;
  const acted = policies.find((p) => p.last_action.kind !== 'none' && p.last_action.reason !== '');
  const reason = acted ? reasonOf(acted, t) : '';
  const running = overview.running[0];
  const failed = overview.deployments.find((d) => d.state === 'failed');
  const serving = overview.deployments.find((d) => d.version > 0);
  if (counts.emergencies_open > 0) {
    return {text: t.home.emergency(counts.emergencies_open), reason: '', tone: 'clay'};
  }
  if (running) {
    const share = formatPercent(running.progress);
    return {text: t.home.training(running.experiment, share), reason, tone: 'busy'};
  }
  if (failed) {
    return {text: t.home.failedDeployment(failed.name), reason: failed.error, tone: 'clay'};
  }
  if (counts.alarms_open > 0) {
    return {text: t.home.alarm(counts.alarms_open, driftedFeature), reason, tone: 'clay'};
  }
  if (serving) {
    const words = acted?.last_action.kind === 'promote' ? t.home.promoted : t.home.serving;
    return {text: words(serving.model, serving.version), reason, tone: 'calm'};
  }
  if (counts.rows > 0) return {text: t.home.flowing, reason, tone: 'calm'};
  if (counts.sources + counts.feature_views > 0) {
    return {text: t.home.declared, reason, tone: 'dry'};
  }
  return {text: t.home.dry, reason: '', tone: 'dry'};
}

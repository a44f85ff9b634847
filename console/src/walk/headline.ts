// The one sentence at the top: the most important thing that is true now. Pure.

import type {Overview, PolicyStatus} from '../api/types';
import {formatPercent} from '../format';
import type {Strings} from '../i18n/en';

export interface Headline {
  text: string;
  reason: string;  // The platform's own words, or ''.
  tone: 'calm' | 'busy' | 'clay' | 'dry';
}

export function headlineOf(
  overview: Overview, policies: PolicyStatus[], driftedFeature: string, t: Strings,
): Headline {
  const {counts} = overview;
  const acted = policies.find((p) => p.last_action.kind !== 'none' && p.last_action.reason !== '');
  const reason = acted?.last_action.reason ?? '';
  const running = overview.running[0];
  const failed = overview.deployments.find((d) => d.state === 'failed');
  const serving = overview.deployments.find((d) => d.version > 0);
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

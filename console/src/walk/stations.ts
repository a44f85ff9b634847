// What each station of the walk shows, from the overview. Pure.

import type {Overview} from '../api/types';
import {formatMs, formatShort} from '../format';
import type {Strings} from '../i18n/en';

export const kStations = [
  'sources', 'feature_views', 'training_sets', 'runs', 'models', 'deployments', 'alarms',
] as const;
export type StationId = typeof kStations[number];

// Where the loop flows back to: a retrain is a run.
export const kLoopTo = kStations.indexOf('runs');

export interface Station {
  id: StationId;
  label: string;
  count: number;
  note: string;
  tone: 'dry' | 'water' | 'clay';
  progress: number | undefined;  // Of what runs there now.
}

function noteOf(id: StationId, overview: Overview, t: Strings): string {
  const {counts} = overview;
  switch (id) {
    case 'feature_views': return counts.rows > 0 ? t.home.rows(formatShort(counts.rows)) : '';
    case 'runs': return overview.running.length > 0 ? t.home.running(overview.running.length) : '';
    case 'models': return counts.model_versions > 0 ?
      t.home.versions(counts.model_versions, formatShort(counts.model_versions)) : '';
    case 'deployments': {
      const serving = overview.deployments.find((d) => d.version > 0);
      if (!serving) return '';
      const name = t.models.serves(serving.model, serving.version);
      return serving.requests > 0 ? t.home.answersIn(name, formatMs(serving.p50_ms)) : name;
    }
    case 'alarms':
      if (counts.alarms === 0) return '';
      return counts.alarms_open > 0 ? t.home.open(counts.alarms_open) : t.home.noneOpen;
    default: return '';
  }
}

export function stationsOf(overview: Overview, t: Strings): Station[] {
  const {counts} = overview;
  return kStations.map((id) => {
    const count = counts[id];
    const broken = id === 'deployments' && overview.deployments.some((d) => d.state === 'failed');
    const alarmed = id === 'alarms' && counts.alarms_open > 0;
    return {
      id, count,
      label: t.stations[id],
      note: noteOf(id, overview, t),
      tone: alarmed || broken ? 'clay' : count > 0 ? 'water' : 'dry',
      progress: id === 'runs' ? overview.running[0]?.progress : undefined,
    };
  });
}

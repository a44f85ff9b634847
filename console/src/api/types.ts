// What the native API answers, as far as the console reads it. Times are RFC 3339 strings.

export interface Project {
  name: string;
  zone: string;
}

export interface Counts {
  sources: number;
  feature_views: number;
  rows: number;
  training_sets: number;
  runs: number;
  models: number;
  model_versions: number;
  deployments: number;
  alarms_open: number;
  alarms: number;
  emergencies_open: number;
  audit_entries?: number;  // Of all projects: only to who may read the whole log, as `head`.
}

export interface Head {
  sequence: number;
  hash: string;
}

export interface Deployment {
  project: string;
  name: string;
  model: string;
  version: number;
  state: string;
  error: string;
  requests: number;
  errors: number;
  p50_ms: number;
  p99_ms: number;
  since: string | null;
}

export interface LatencyPoint {
  t: number;
  p50_ms: number;
  p99_ms: number;
  rps: number;
}

export interface Overview {
  counts: Counts;
  running: {run: string; progress: number; experiment: string}[];
  head?: Head;
  deployments: Deployment[];
  latency: {deployment: string; points: LatencyPoint[]}[];
}

export type Json = null | boolean | number | string | Json[] | {[key: string]: Json};
export type JsonObject = {[key: string]: Json};

export interface DeclaredObject {
  kind: string;
  metadata: {name: string; project?: string; generation?: number; updated_at?: string};
  spec: JsonObject;
}

export interface FeatureViewStatus {
  view: string;
  rows: number;
  quarantined: number;
  segments: number;
  keys_online: number;
  newest_event: string | null;
}

export interface FeatureProfile {
  name: string;
  type: string;
  missing: number;
  distinct: number;
  sensitivity?: string;
  numbers_of?: string;  // 'length': of a text.
  min?: number | string | null;
  max?: number | string | null;
  mean?: number | null;
  quantiles?: {[name: string]: number | string | null};
  histogram?: {from: number | string | null; to: number | string | null; shares: number[]} | null;
  top?: {value: string | number | boolean; rows: number}[];
}

export interface ViewProfile {
  rows: number;
  looked_at: number;
  at: string;
  features: FeatureProfile[];
}

export interface Manifest {
  name: string;
  id: string;
  rows: number;
  rows_valid: number;
  features: string[];
  label: string;
  service: string;
  known_at: number;
  frozen_at: string;
}

export interface Run {
  id: string;
  experiment: string;
  status: string;
  metrics: {[name: string]: number};
  outputs: JsonObject;
  error: string;
  progress: number;
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
}

export interface ModelVersion {
  model: string;
  version: number;
  onnx: string;
  signature: {features?: string[]};
  training_set: string;
  feature_service: string;
  run: string;
  code_version: string;
  zone: string;
  metrics: {[name: string]: number};
  proof: {rows?: number; mismatches?: number; max_abs_diff?: number};
  created_at: string;
}

export interface Model {
  name: string;
  versions: ModelVersion[];
  aliases: {[alias: string]: number};
}

export interface Prediction {
  model: string;
  version: number;
  deployment: string;
  predictions: {
    entity: JsonObject;
    score: number;
    features?: {[name: string]: number | null};
    statuses?: {[name: string]: string};
  }[];
}

export interface FeatureDrift {
  feature: string;
  psi: number;
  js: number;
  drifted: boolean;
}

export interface DriftWindow {
  id: number;
  version: number;
  from: string;
  to: string;
  rows: number;
  alarm: boolean;
  drift: {worst: number; worst_feature: string; drifted: number; features: FeatureDrift[]};
}

export interface Monitor {
  name: string;
  deployment: string;
  method: 'psi' | 'js';
  threshold: number;
  windows: DriftWindow[];
}

export interface FeatureHistogram {
  feature: string;
  edges: number[];
  reference: number[];
  current: number[];
}

export interface Histograms {
  window: DriftWindow;
  features: FeatureHistogram[];
}

export interface DriftAlarm {
  kind: 'drift';
  id: number;
  monitor: string;
  deployment: string;
  version: number;
  at: string;
  open: boolean;
}

// Somebody used a break-glass grant.
export interface Emergency {
  kind: 'break-glass';
  id: number;
  project: string;
  principal: string;
  action: string;
  object: string;
  uses: number;
  at: string;
  open: boolean;
}

export type Alarm = DriftAlarm | Emergency;

export interface PolicyAction {
  kind: string;
  reason: string;
}

// What a policy saw when it decided.
export interface PolicySnapshot {
  evaluated: boolean;
  champion_version: number;
  candidate_version: number;
  champion_auc: number;
  candidate_auc: number;
  gate_rows: number;
}

export interface PolicyStatus {
  policy: string;
  phase: string;
  last_action: PolicyAction;             // The last thing that it did …
  snapshot?: PolicySnapshot;             // … and what it saw then.
  current?: {action: PolicyAction};      // What it says now, "none" with a reason while it waits.
}

export interface AuditEntry {
  sequence: number;
  at: string;
  actor: string;
  project: string;
  action: string;
  object: string;
  request_id: string;
  detail: Json;
  hash: string;
}

export interface AuditPage {
  entries: AuditEntry[];
  head: Head;
}

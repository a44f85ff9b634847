// Calls to the native API. A refused call throws ApiError with the problem's own words.

import type {
  Alarm, AuditPage, DeclaredObject, FeatureViewStatus, Head, Histograms, JsonObject, Manifest,
  Model, Monitor, Overview, PolicyStatus, Prediction, Project, Run, ViewProfile,
} from './types';
import type {Rights} from '../rights';
import {changeHeaders, sessionRefused} from '../session';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly nextStep: string,
  ) {
    super(detail);
  }
}

async function problemOf(response: Response): Promise<ApiError> {
  if (response.status === 401) sessionRefused();
  const text = await response.text();
  try {
    const body = JSON.parse(text) as {
      code?: string; detail?: string; title?: string; next_step?: string;
    };
    const detail = body.detail ?? body.title ?? response.statusText;
    return new ApiError(response.status, body.code ?? '', detail, body.next_step ?? '');
  } catch {
    return new ApiError(response.status, '', `${response.status} ${response.statusText}`, '');
  }
}

export type Query = {[name: string]: string | number | undefined};

export function urlOf(path: string, query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return text === '' ? path : `${path}?${text}`;
}

const segment = encodeURIComponent;

async function get<T>(path: string, query: Query, signal?: AbortSignal): Promise<T> {
  const response = await fetch(urlOf(path, query), signal ? {signal} : {});
  if (!response.ok) throw await problemOf(response);
  return await response.json() as T;
}

async function post<T>(path: string, query: Query, body: JsonObject): Promise<T> {
  const response = await fetch(urlOf(path, query), {
    method: 'POST',
    headers: changeHeaders(),
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await problemOf(response);
  return await response.json() as T;
}

export interface AuditQuery {
  after?: number;
  limit?: number;
  action?: string;
  object?: string;
  project?: string;
}

export const api = {
  signIn: async (name: string, password: string) => {
    await post('/api/v1/session', {}, {name, password});
  },
  setUp: async (secret: string, name: string, password: string) => {
    await post('/api/v1/setup', {}, {secret, name, password});
  },
  signOut: async () => {
    const response = await fetch('/api/v1/session', {method: 'DELETE', headers: changeHeaders()});
    if (!response.ok) throw await problemOf(response);
  },
  rights: () => get<Rights>('/api/v1/access:mine', {}),
  projects: async (signal?: AbortSignal) =>
    (await get<{projects: Project[]}>('/api/v1/projects', {}, signal)).projects,
  overview: (project: string, signal?: AbortSignal) =>
    get<Overview>('/api/v1/overview', {project}, signal),
  objects: async (project: string, kind: string, signal?: AbortSignal) =>
    (await get<{objects: DeclaredObject[]}>('/api/v1/objects', {kind, project}, signal)).objects,
  featureViews: async (project: string, signal?: AbortSignal) =>
    (await get<{views: FeatureViewStatus[]}>('/api/v1/feature-views', {project}, signal)).views,
  // The newest; null when no file was ingested.
  profile: async (project: string, view: string, signal?: AbortSignal) =>
    (await get<{profiles: ViewProfile[]}>(`/api/v1/feature-views/${segment(view)}/profiles`,
      {project}, signal)).profiles[0] ?? null,
  trainingSets: async (project: string, signal?: AbortSignal) =>
    (await get<{training_sets: Manifest[]}>('/api/v1/training-sets', {project}, signal))
      .training_sets,
  runs: async (project: string, signal?: AbortSignal) =>
    (await get<{runs: Run[]}>('/api/v1/runs', {project}, signal)).runs,
  models: async (project: string, signal?: AbortSignal) =>
    (await get<{models: Model[]}>('/api/v1/models', {project}, signal)).models,
  monitors: async (project: string, signal?: AbortSignal) =>
    (await get<{monitors: Monitor[]}>('/api/v1/monitors', {project}, signal)).monitors,
  histograms: (project: string, monitor: string, window: number, signal?: AbortSignal) =>
    get<Histograms>(`/api/v1/monitors/${segment(monitor)}/histograms`, {project, window}, signal),
  alarms: async (project: string, signal?: AbortSignal) =>
    (await get<{alarms: Alarm[]}>('/api/v1/alarms', {project}, signal)).alarms,
  closeEmergency: async (id: number) => {
    await post(`/api/v1/emergencies/${id}:close`, {}, {});
  },
  policies: async (project: string, signal?: AbortSignal) =>
    (await get<{policies: PolicyStatus[]}>('/api/v1/policies', {project}, signal)).policies,
  audit: (query: AuditQuery, signal?: AbortSignal) =>
    get<AuditPage>('/api/v1/audit', {order: 'newest', ...query}, signal),
  verifyAudit: () => post<{ok: boolean; head: Head}>('/api/v1/audit:verify', {}, {}),
  replay: (sequence: number) =>
    post<{ok: boolean; action: {kind: string; reason: string}}>(
      `/api/v1/audit/${sequence}:replay`, {}, {}),
  predict: (project: string, deployment: string, entity: JsonObject) =>
    post<Prediction>(`/api/v1/deployments/${segment(deployment)}:predict`,
      {project, explain: 'true'}, {entity}),
};

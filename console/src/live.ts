// The live overview: server-sent events with a reconnect that backs off, and a last known value.

import {api, urlOf} from './api/client';
import type {Overview} from './api/types';
import {createStore} from './store';

export type Link = 'connecting' | 'live' | 'lost';

export interface Live {
  link: Link;
  overview: Overview | undefined;
  receivedAt: number;  // Milliseconds since the epoch; 0 before the first answer.
  revision: number;    // Grows when pages should read their own data again.
}

const kFirstDelayMs = 500;
const kLongestDelayMs = 20_000;
const kHeartbeatMs = 10_000;

// The delay before attempt n (0, 1, 2 …): doubles, is capped, and is spread by `random` in 0…1 so
// that many open consoles do not return at once after a restart.
export function backoffMs(attempt: number, random: number): number {
  const full = Math.min(kLongestDelayMs, kFirstDelayMs * 2 ** Math.min(attempt, 16));
  return Math.round(full * (0.5 + 0.5 * random));
}

const kNothing: Live = {link: 'connecting', overview: undefined, receivedAt: 0, revision: 0};

export const live = createStore<Live>(kNothing);

let stop = () => {};

// What pages show follows the audit log, which every change enters; who may not read that sees it by
// the counts.
function stateOf(overview: Overview): string {
  const {head, counts, deployments, running} = overview;
  if (head) return String(head.sequence);
  return JSON.stringify([counts, running.length, deployments.map((d) => [d.name, d.version, d.state])]);
}

function receive(overview: Overview, link: Link): void {
  const {overview: before, revision} = live.get();
  const changed = before === undefined || stateOf(before) !== stateOf(overview);
  live.set({link, overview, receivedAt: Date.now(), revision: revision + (changed ? 1 : 0)});
}

function setLink(link: Link): void {
  const now = live.get();
  if (now.link !== link) live.set({...now, link});
}

// Follows one project; the one followed before is let go.
export function follow(project: string): void {
  stop();
  live.set({...kNothing, revision: live.get().revision + 1});
  let attempt = 0;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const abort = new AbortController();

  const refresh = () => api.overview(project, abort.signal).then(
    (overview) => { if (!abort.signal.aborted) receive(overview, live.get().link); },
    () => {});

  const connect = () => {
    source = new EventSource(urlOf('/api/v1/events', {project}));
    source.onopen = () => {
      attempt = 0;
      setLink('live');
    };
    source.onmessage = (event: MessageEvent<string>) => {
      const overview = JSON.parse(event.data) as Partial<Overview>;
      // The server sends {} when it could not read its own state; the last known one stays.
      if (overview.counts) receive(overview as Overview, 'live');
    };
    source.onerror = () => {
      source?.close();
      setLink('lost');
      timer = setTimeout(connect, backoffMs(attempt++, Math.random()));
    };
  };

  // Windows of a monitor close without an event of their own.
  const heartbeat = setInterval(() => {
    const now = live.get();
    if (now.link !== 'live' || document.hidden) return;
    live.set({...now, revision: now.revision + 1});
  }, kHeartbeatMs);

  stop = () => {
    abort.abort();
    clearInterval(heartbeat);
    source?.close();
    clearTimeout(timer);
  };
  void refresh();
  connect();
}

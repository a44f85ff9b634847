// Which page, which project, which thing on it: all in the address, so that a link says it all.

import {createStore} from './store';

export type Page = 'home' | 'models' | 'drift' | 'audit';

export interface Place {
  page: Page;
  project: string;  // '' until one was chosen.
  show: string;     // A station of the walk, or '': only on the home page.
}

const kPaths: Record<Page, string> = {
  home: '/', models: '/models', drift: '/drift', audit: '/audit',
};

export function parsePlace(path: string, search: string): Place {
  const query = new URLSearchParams(search);
  const trimmed = path.length > 1 ? path.replace(/\/+$/, '') : path;
  const found = Object.entries(kPaths).find(([, known]) => known === trimmed);
  return {
    page: (found?.[0] ?? 'home') as Page,
    project: query.get('project') ?? '',
    show: query.get('show') ?? '',
  };
}

export function hrefOf(place: Partial<Place>): string {
  const query = new URLSearchParams();
  if (place.project) query.set('project', place.project);
  if (place.show) query.set('show', place.show);
  const text = query.toString();
  return kPaths[place.page ?? 'home'] + (text === '' ? '' : `?${text}`);
}

export const place = createStore<Place>({page: 'home', project: '', show: ''});

export type Entry = 'push' | 'replace';

export function go(next: Partial<Place>, entry: Entry = 'push'): void {
  const href = hrefOf(next);
  if (entry === 'replace') history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  place.set(parsePlace(location.pathname, location.search));
}

function isPlainClick(event: MouseEvent): boolean {
  return event.button === 0 && !event.defaultPrevented && !event.metaKey && !event.ctrlKey &&
    !event.shiftKey && !event.altKey;
}

export function startRouter(): void {
  const read = () => place.set(parsePlace(location.pathname, location.search));
  window.addEventListener('popstate', read);
  // One listener for every inner link, those inside SVG included.
  document.addEventListener('click', (event) => {
    const link = (event.target as Element | null)?.closest?.('a[href]');
    const href = link?.getAttribute('href') ?? '';
    // The way to the identity provider leaves this page.
    if (!href.startsWith('/') || href.startsWith('/auth/') || !isPlainClick(event)) return;
    event.preventDefault();
    const url = new URL(href, location.origin);
    history.pushState(null, '', href);
    place.set(parsePlace(url.pathname, url.search));
  });
  read();
}

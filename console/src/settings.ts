// Language and theme: chosen by the person, remembered by the browser, shown on <html>.

import {createStore} from './store';

export type Language = 'en' | 'ar';
export type Theme = 'auto' | 'light' | 'dark';

function remembered<T extends string>(name: string, known: readonly T[], fallback: T): T {
  try {
    const value = localStorage.getItem(name);
    return known.find((item) => item === value) ?? fallback;
  } catch {
    return fallback;  // Storage can be forbidden; the console works without memory.
  }
}

function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // As above.
  }
}

const kLanguageKey = 'falaj.language';
const kThemeKey = 'falaj.theme';

export const language = createStore<Language>(remembered(
  kLanguageKey, ['en', 'ar'] as const, navigator.language.startsWith('ar') ? 'ar' : 'en'));
export const theme = createStore<Theme>(
  remembered(kThemeKey, ['auto', 'light', 'dark'] as const, 'auto'));

function show(): void {
  const root = document.documentElement;
  root.lang = language.get();
  root.dir = language.get() === 'ar' ? 'rtl' : 'ltr';
  root.dataset['theme'] = theme.get();
}

export function startSettings(): void {
  show();
  language.subscribe(() => { remember(kLanguageKey, language.get()); show(); });
  theme.subscribe(() => { remember(kThemeKey, theme.get()); show(); });
}

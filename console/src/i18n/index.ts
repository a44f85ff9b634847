import {language, type Language} from '../settings';
import {useStore} from '../store';
import {ar} from './ar';
import {en, type Strings} from './en';

const kDictionaries: Record<Language, Strings> = {en, ar};

// The words of the chosen language, and the language for numbers and times.
export function useWords(): {t: Strings; lang: Language} {
  const lang = useStore(language);
  return {t: kDictionaries[lang], lang};
}

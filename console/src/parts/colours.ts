// Colours of the style sheet for the canvas, which cannot read custom properties.

export type Colours = {[name in ColourName]: string};
export type ColourName = 'ink' | 'muted' | 'line' | 'water' | 'current' | 'bank' |
  'bank-line' | 'amber' | 'clay' |
  'surface';

const kNames: ColourName[] =
  ['ink', 'muted', 'line', 'water', 'current', 'bank', 'bank-line', 'amber', 'clay', 'surface'];

export function readColours(near: HTMLElement): Colours {
  const probe = document.createElement('span');
  near.append(probe);
  const result = {} as Colours;
  for (const name of kNames) {
    probe.style.color = `var(--${name})`;
    result[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return result;
}

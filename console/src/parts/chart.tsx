// uPlot in a component. The library is fetched when the first chart is shown.

import {useEffect, useRef, useState} from 'preact/hooks';
import type uPlot from 'uplot';

import {theme} from '../settings';
import {useStore} from '../store';
import {readColours, type Colours} from './colours';

export type MakeOptions =
  (colours: Colours) => Omit<uPlot.Options, 'width' | 'height'>;

export interface ChartProps {
  label: string;       // What a person who does not see the picture hears.
  height: number;
  data: uPlot.AlignedData;
  options: MakeOptions;
  optionsKey: string;  // A change draws anew; new data alone only redraws.
}

function usePrefersDark(): boolean {
  const [query] = useState(() => matchMedia('(prefers-color-scheme: dark)'));
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const follow = () => setDark(query.matches);
    query.addEventListener('change', follow);
    return () => query.removeEventListener('change', follow);
  }, [query]);
  return dark;
}

export function Chart({label, height, data, options, optionsKey}: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const newest = useRef(data);
  newest.current = data;
  const chosen = useStore(theme);
  const dark = usePrefersDark();

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let gone = false;
    const watch = new ResizeObserver(() => {
      plot.current?.setSize({width: element.clientWidth, height});
    });
    void import('uplot').then(({default: UPlot}) => {
      if (gone) return;
      plot.current = new UPlot(
        {...options(readColours(element)), width: element.clientWidth, height},
        newest.current, element);
      watch.observe(element);
    });
    return () => {
      gone = true;
      watch.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [optionsKey, chosen, dark, height]);

  useEffect(() => { plot.current?.setData(data); }, [data]);

  return <div ref={box} class="chart" role="img" aria-label={label} dir="ltr"
    style={{height: `${height}px`}} />;
}

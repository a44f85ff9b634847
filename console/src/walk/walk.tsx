// The picture of the walk: one channel, seven basins, and the loop that leads water back.

import {useEffect, useRef, useState} from 'preact/hooks';

import type {Overview} from '../api/types';
import {formatCount, formatShort} from '../format';
import {useWords} from '../i18n';
import {hrefOf} from '../router';
import {kLoopTo, stationsOf, type Station, type StationId} from './stations';
import {layOut, reachOf, type Point, type WalkLayout} from './layout';

export interface WalkProps {
  overview: Overview;
  project: string;
  shown: string;      // The station whose contents are listed below.
  loopNote: string;   // What the loop does now.
  loopFlows: boolean;
}

function hrefOfStation(id: StationId, project: string, shown: string): string {
  if (id === 'models' || id === 'deployments') return hrefOf({page: 'models', project});
  if (id === 'alarms') return hrefOf({page: 'drift', project});
  return hrefOf({page: 'home', project, show: shown === id ? '' : id});
}

function useWidth() {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setWidth(element.clientWidth);
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    measure();
    return () => watch.disconnect();
  }, []);
  return {box, width};
}

function Labels({station, at, layout}: {station: Station; at: Point; layout: WalkLayout}) {
  const {radius, shape} = layout;
  if (shape === 'down') {
    const x = layout.labelsAt;
    return (
      <>
        <text class="station-label beside" x={x} y={at.y - (station.note ? 3 : -5)}>
          {station.label}
        </text>
        <text class="station-note beside" x={x} y={at.y + 18}>{station.note}</text>
      </>
    );
  }
  return (
    <>
      <text class="station-label" x={at.x} y={at.y + radius + 32}>{station.label}</text>
      <text class="station-note" x={at.x} y={at.y + radius + 52}>{station.note}</text>
    </>
  );
}

function Basin({station, at, radius}: {station: Station; at: Point; radius: number}) {
  const around = 2 * Math.PI * (radius + 1);
  return (
    <>
      <circle class="basin-bank" cx={at.x} cy={at.y} r={radius + 5} />
      <circle class="basin-water" cx={at.x} cy={at.y} r={radius - 3} />
      <circle class="basin-ripple" cx={at.x} cy={at.y} r={radius - 10} />
      {station.progress !== undefined && (
        <circle class="basin-progress" cx={at.x} cy={at.y} r={radius + 1}
          transform={`rotate(-90 ${at.x} ${at.y})`}
          stroke-dasharray={`${around * station.progress} ${around}`} />
      )}
      <text class="station-count" x={at.x} y={at.y} dy="0.36em">{formatShort(station.count)}</text>
    </>
  );
}

export function Walk({overview, project, shown, loopNote, loopFlows}: WalkProps) {
  const {t, lang} = useWords();
  const {box, width} = useWidth();
  const direction = lang === 'ar' ? 'rtl' : 'ltr';
  const stations = stationsOf(overview, t);
  const layout = layOut(width || 1200, stations.length, kLoopTo, direction);
  const furthest = stations.findLastIndex((s) => s.count > 0);
  const reach = reachOf(layout, furthest, direction);
  return (
    <div ref={box} class={`walk ${layout.shape}`}>
      {width > 0 && (
        <svg width={width} height={layout.height} role="group" aria-label={t.home.picture}>
          <defs>
            <radialGradient id="basin-depth">
              <stop class="basin-bed" offset="0.45" /><stop class="basin-shore" offset="1" />
            </radialGradient>
            <clipPath id="walk-reach"><rect {...reach} /></clipPath>
          </defs>
          {(['dry', 'wet'] as const).map((state) => (
            <g key={state} aria-hidden="true" class={state}
              clip-path={state === 'wet' ? 'url(#walk-reach)' : undefined}>
              <path class="channel-bank" d={layout.channel} />
              <path class="channel-water" d={layout.channel} />
              <path class="channel-flow" d={layout.channel} />
            </g>
          ))}
          <g aria-hidden="true" class={loopFlows ? 'wet' : 'dry'}>
            <path class="loop-bank" d={layout.loop} />
            <path class="loop-water" d={layout.loop} />
            <path class="channel-flow" d={layout.loop} />
            <path class="loop-arrow" d={layout.arrow} />
          </g>
          {stations.map((station, i) => {
            const at = layout.stations[i]!;
            return (
              <a key={station.id} href={hrefOfStation(station.id, project, shown)}
                class={`station ${station.tone} ${shown === station.id ? 'shown' : ''}`}
                data-station={station.id}
                aria-label={`${station.label}: ${formatCount(station.count)}. ${station.note}`}>
                <Basin station={station} at={at} radius={layout.radius} />
                <Labels station={station} at={at} layout={layout} />
              </a>
            );
          })}
          {layout.shape === 'across' && (
            <text class="loop-label" x={layout.loopLabel.x} y={layout.loopLabel.y - 20}>
              {loopNote}
            </text>
          )}
        </svg>
      )}
    </div>
  );
}

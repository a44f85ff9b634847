// How the rows of a view's newest ingest lie: one strip a feature, with its bars, the middle half of
// its values and its median.

import {api} from '../api/client';
import type {FeatureProfile} from '../api/types';
import {formatCount, formatPercent, formatShort} from '../format';
import {useWords} from '../i18n';
import {Ago, Chip, Code, Failure, Loading} from '../parts/parts';
import {along, numberOf} from '../profile_strip';
import {useResource} from '../resource';

const kWidth = 240;
const kHeight = 40;

function Strip({feature}: {feature: FeatureProfile}) {
  const {histogram, quantiles} = feature;
  const shares = histogram?.shares ?? [];
  const from = numberOf(histogram?.from);
  const to = numberOf(histogram?.to);
  if (shares.length < 2 || from === undefined || to === undefined) return null;
  const most = Math.max(...shares);
  const slot = kWidth / shares.length;
  const at = (name: string) => along(numberOf(quantiles?.[name]), from, to);
  const [low, middle, high] = [at('p25'), at('p50'), at('p75')];
  return (
    <svg class="strip" viewBox={`0 0 ${kWidth} ${kHeight + 6}`} role="img"
      aria-label={`${feature.name}: ${quantiles?.['p25']} – ${quantiles?.['p50']} – ` +
        `${quantiles?.['p75']}`}>
      {shares.map((share, i) => {
        const height = most > 0 ? kHeight * share / most : 0;
        return <rect key={i} x={i * slot + 0.5} width={slot - 1} y={kHeight - height}
          height={height} class="bar" />;
      })}
      {low !== undefined && high !== undefined && <rect class="half" x={low * kWidth}
        width={Math.max(1, (high - low) * kWidth)} y={kHeight + 2} height={4} />}
      {middle !== undefined && <rect class="median" x={middle * kWidth - 1} width={2} y={0}
        height={kHeight + 6} />}
    </svg>
  );
}

function Frequent({feature, rows}: {feature: FeatureProfile; rows: number}) {
  return (
    <ul class="plain frequent">
      {(feature.top ?? []).slice(0, 3).map((one) => (
        <li key={String(one.value)}><Code>{String(one.value)}</Code>{' '}
          {formatPercent(rows > 0 ? one.rows / rows : 0)}</li>))}
    </ul>
  );
}

export function Profile({project, view, revision}: {
  project: string; view: string; revision: number;
}) {
  const {t} = useWords();
  const {data, error} = useResource(`profile ${project} ${view}`, revision,
    (signal) => api.profile(project, view, signal));
  if (error) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  if (data === null) return <p>{t.profile.none}</p>;
  const text = (value: number | string | null | undefined) =>
    typeof value === 'number' ? formatShort(value) : value ?? '–';
  return (
    <div class="profile" data-profile={view}>
      <p>{t.profile.of(formatCount(data.rows))} <Ago at={data.at} />
        {data.looked_at < data.rows && ` · ${t.profile.sampled(formatCount(data.looked_at))}`}</p>
      <ul class="plain">
        {data.features.map((feature) => (
          <li key={feature.name} data-feature={feature.name}>
            <div class="name"><Code>{feature.name}</Code>
              {feature.sensitivity && <Chip tone="sand">{t.profile.personal}</Chip>}</div>
            <div class="facts-line">
              {t.profile.missing(formatPercent(data.rows > 0 ? feature.missing / data.rows : 0))}
              {' · '}{t.profile.distinct(formatCount(feature.distinct))}
              {feature.min !== undefined && !feature.numbers_of && <>{' · '}
                <Code>{text(feature.min)} – {text(feature.max)}</Code></>}
            </div>
            {feature.numbers_of ? null : <Strip feature={feature} />}
            <Frequent feature={feature} rows={data.rows} />
          </li>
        ))}
      </ul>
    </div>
  );
}

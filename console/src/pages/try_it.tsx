// Ask a deployment about one entity, and see what it saw.

import {useState} from 'preact/hooks';

import {api} from '../api/client';
import type {Deployment, JsonObject, Prediction} from '../api/types';
import {formatFixed, formatMs, formatValue} from '../format';
import {useWords} from '../i18n';
import {keyValue, type KeyField} from '../key_fields';
import {Chip, Code, DataTable, Failure} from '../parts/parts';

interface Answer {
  prediction: Prediction;
  ms: number;
}

function Seen({features, statuses}: {
  features: {[name: string]: number | null}; statuses: {[name: string]: string};
}) {
  const {t} = useWords();
  return (
    <details open>
      <summary>{t.tryIt.features}</summary>
      <DataTable caption={t.tryIt.features} rows={Object.entries(features)} rowKey={([name]) => name}
        columns={[
          {head: t.columns.feature, cell: ([name]) => <Code>{name}</Code>},
          {head: t.columns.value, numeric: true, cell: ([, value]) =>
            value === null ? t.tryIt.missing : <Code>{formatValue(value)}</Code>},
          {head: t.columns.origin, cell: ([name]) => {
            const status = statuses[name] ?? 'PRESENT';
            return <Chip tone={status === 'PRESENT' ? 'water' : 'sand'}>
              <Code>{status.toLowerCase().replaceAll('_', ' ')}</Code></Chip>;
          }},
        ]} />
    </details>
  );
}

function Result({answer}: {answer: Answer}) {
  const {t} = useWords();
  const {prediction, ms} = answer;
  const first = prediction.predictions[0];
  if (!first) return null;
  const share = Math.min(1, Math.max(0, first.score));
  return (
    <div class="answer">
      <div class="score">
        <span class="score-label">{t.tryIt.score}</span>
        <output data-testid="score" dir="ltr">{formatFixed(first.score, 4)}</output>
        <meter min={0} max={1} value={share} aria-label={t.tryIt.score} />
        <span class="score-note">
          <Code>{t.tryIt.answeredBy(prediction.model, prediction.version)}</Code>
          <span>{t.tryIt.roundTrip(formatMs(ms))}</span>
        </span>
      </div>
      {first.features && <Seen features={first.features} statuses={first.statuses ?? {}} />}
    </div>
  );
}

export function TryIt({deployment, fields}: {deployment: Deployment; fields: KeyField[]}) {
  const {t} = useWords();
  const [texts, setTexts] = useState<{[name: string]: string}>({});
  const [fault, setFault] = useState<{field: string; text: string}>();
  const [answer, setAnswer] = useState<Answer>();
  const [error, setError] = useState<Error>();
  const [asking, setAsking] = useState(false);

  const ask = async (event: Event) => {
    event.preventDefault();
    const entity: JsonObject = {};
    for (const field of fields) {
      const value = keyValue(field, texts[field.name] ?? '');
      if (value === undefined) {
        const words = field.type === 'int64' ? t.tryIt.needNumber : t.tryIt.needText;
        setFault({field: field.name, text: words(field.name)});
        return;
      }
      entity[field.name] = value;
    }
    setFault(undefined);
    setAsking(true);
    const begun = performance.now();
    try {
      const prediction = await api.predict(deployment.project, deployment.name, entity);
      setAnswer({prediction, ms: performance.now() - begun});
      setError(undefined);
    } catch (refused) {
      setError(refused as Error);
      setAnswer(undefined);
    }
    setAsking(false);
  };

  return (
    <div class="try-it">
      <h4>{t.tryIt.title}</h4>
      {fields.length === 0 ? <p class="calm">{t.tryIt.noKeys}</p> : (
        <form onSubmit={(event) => void ask(event)} noValidate>
          <p class="calm">{t.tryIt.help}</p>
          <div class="fields">
            {fields.map((field) => {
              const id = `key-${deployment.name}-${field.name}`;
              const bad = fault?.field === field.name;
              return (
                <label key={field.name} for={id}>
                  <Code>{field.name}</Code>
                  <input id={id} name={field.name} dir="ltr" autocomplete="off"
                    inputMode={field.type === 'int64' ? 'numeric' : 'text'}
                    value={texts[field.name] ?? ''} aria-invalid={bad}
                    aria-describedby={bad ? `${id}-fault` : undefined}
                    onInput={(event) =>
                      setTexts({...texts, [field.name]: event.currentTarget.value})} />
                  {bad && <span id={`${id}-fault`} class="fault">{fault.text}</span>}
                </label>
              );
            })}
            <button type="submit" class="primary" disabled={asking}>
              {asking ? t.tryIt.asking : t.tryIt.ask}
            </button>
          </div>
        </form>
      )}
      <div aria-live="polite">
        {error && <Failure error={error} />}
        {answer && <Result answer={answer} />}
      </div>
    </div>
  );
}

/** The answer of Explain in five steps: listener, route, plugins, the request as sent on, endpoint. */
import { useState, type ReactNode } from 'react';
import type { Destination, Explanation, Step } from '../../api/explain';
import { upstreamId } from '../../api/upstreams';
import { objectPath } from '../../app/url';
import { Go } from '../../ui/Go';
import { Mark, StateText } from '../../ui/Mark';
import { Bar } from '../../ui/Spark';
import { usePhone } from '../../ui/media';
import { headerChanges, lost, nearest, stepWords, withHost } from './words';

const FOLDED = 5;

function Section({ number, title, children }: { number: number; title: string; children: ReactNode }) {
  const phone = usePhone();
  if (phone) {
    return (
      <details className="step" open={number < 4}>
        <summary><b>{number}</b> {title}</summary>
        <div className="step-body">{children}</div>
      </details>
    );
  }
  return (
    <section className="step" aria-label={title}>
      <h2><b>{number}</b> {title}</h2>
      <div className="step-body">{children}</div>
    </section>
  );
}

function Listen({ answer, url }: { answer: Explanation; url: string }) {
  const tls = url.startsWith('https:');
  return (
    <p>
      {answer.listener ?? <>{tls ? 'A TLS listener' : 'A plain listener'}, host <code>{answer.request.host ?? '–'}</code></>}
      <span className="quiet"> · path as matched <code>{answer.request.path}</code></span>
    </p>
  );
}

function Route({ answer, method }: { answer: Explanation; method: string }) {
  const [all, setAll] = useState(false);
  const winner = answer.considered.find((each) => each.verdict === 'matched');
  const losers = nearest(answer.considered, all ? 100 : FOLDED);
  const lostCount = answer.considered.filter((each) => each.verdict !== 'matched').length;
  const total = Math.max(lostCount, (answer.considered_total ?? 0) - (winner ? 1 : 0));
  const params = Object.entries(answer.matched?.params ?? {});
  return (
    <div className="explain-route">
      <div>
        {answer.matched ? (
          <>
            <p className="explain-winner">
              <Mark state={answer.closed ? 'err' : 'ok'} label="" /> <Go to={objectPath('routes', answer.matched.id)}>{winner?.name ?? answer.matched.id}</Go>
              {winner && <code>{winner.host ?? ''}{winner.path ?? ''}</code>}
            </p>
            {params.length > 0 && <p className="quiet">{params.map(([name, value]) => `${name} = ${value}`).join(', ')}</p>}
            <p className="quiet">
              {answer.matched.service_id && <>service <Go to={objectPath('services', answer.matched.service_id)}>{answer.matched.service_id}</Go> </>}
              {answer.matched.upstream_id && <>upstream <Go to={objectPath('upstreams', answer.matched.upstream_id)} search={{ tab: 'endpoints' }}>{answer.matched.upstream_id}</Go></>}
            </p>
          </>
        ) : (
          <p className="explain-winner"><Mark state="err" label="" /> <b>No route matches; the answer is 404.</b></p>
        )}
        {answer.closed && <p className="level-err">It would be answered 503: {answer.closed}</p>}
      </div>
      {(lostCount > 0 || (answer.faulty?.length ?? 0) > 0 || answer.unplaced.length > 0) && (
        <div>
          <p className="quiet">{lostCount > 0 ? (answer.matched ? `${total} lost` : `${Math.min(FOLDED, lostCount)} nearest of ${total}`) : ''}</p>
          <ul className="losers">
            {losers.map((each, at) => (
              <li key={`${each.id}${at}`}>
                {each.id ? <Go to={objectPath('routes', each.id)}>{each.name ?? each.id}</Go> : '–'}
                <span className="dim">{lost(each, method)}</span>
              </li>
            ))}
            {(answer.faulty ?? []).map((each) => (
              <li key={each.key}><Go to={`/${each.key}`}>{each.key.replace(/^routes\//, '')}</Go><span className="in-text"><Mark state="out" label="" /> out of force: {each.reason} <Go to="/faults">Open fault</Go></span></li>
            ))}
            {answer.unplaced.map((each) => (
              <li key={each.id}><Go to={objectPath('routes', each.id)}>{each.id}</Go><span><Mark state="out" label="" /> has no place: {each.reason}</span></li>
            ))}
          </ul>
          {!all && lostCount > FOLDED && <button type="button" className="attention-more" onClick={() => setAll(true)}>Show {Math.min(100, lostCount) - FOLDED} more</button>}
        </div>
      )}
    </div>
  );
}

function Plugins({ steps }: { steps: Step[] }) {
  if (steps.length === 0) return <p className="quiet">No plugin runs.</p>;
  return (
    <table className="table explain-plugins">
      <thead className="sr"><tr><th scope="col">Plugin</th><th scope="col">From and phase</th><th scope="col">Result</th></tr></thead>
      <tbody>
        {steps.map((step, at) => {
          const said = stepWords(step);
          return (
            <tr key={`${step.plugin}${step.phase}${at}`} data-off={step.runs === false}>
              <th scope="row"><Go to={`/plugins/${step.plugin}`}>{step.plugin}</Go></th>
              <td className="quiet">{step.from.replace(/_/g, ' ')}, {step.phase}</td>
              <td><StateText state={said.state} label={said.verb} />{said.rest && <span className="dim">: {said.rest}</span>}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function SentAs({ answer, asked }: { answer: Explanation; asked: [string, string][] }) {
  const sent = answer.forwarded;
  if (!sent) return <p className="quiet">Nothing is sent on.</p>;
  return (
    <>
      <p className="mono explain-line">{sent.method} {sent.url}</p>
      <ul className="header-changes">
        {headerChanges(withHost(asked, answer.request.host), sent.headers).map((each) => (
          <li key={each.sign + each.name} className="mono"><b aria-label={{ '+': 'added', '−': 'removed', '~': 'changed' }[each.sign]}>{each.sign}</b> {each.name}{each.sign !== '−' && `: ${each.value}`}</li>
        ))}
      </ul>
    </>
  );
}

function Endpoint({ answer }: { answer: Explanation }) {
  if (answer.choices) return <>{answer.choices.map((each, index) => (each.upstream ? <Candidates key={index} upstream={each.upstream} share={each.share} /> : <p key={index}>{each.share} % have no upstream</p>))}</>;
  if (!answer.upstream) return <p className="quiet">No endpoint is asked.</p>;
  return <Candidates upstream={answer.upstream} />;
}

function Candidates({ upstream, share }: { upstream: Destination; share?: number }) {
  return (
    <>
      <p>upstream <Go to={`/${upstreamId(upstream.id).path}`} search={{ tab: 'endpoints' }}>{upstreamId(upstream.id).label}</Go>, {upstream.type}{share === undefined ? '' : `, ${share} % of such requests`}</p>
      <ul className="candidates">
        {upstream.candidates.map((each) => (
          <li key={each.address}>
            <Mark state={each.state} /> <span className="mono">{each.address}</span>
            <Bar share={each.share ?? 0} width={80} /> <span className="num">{each.share === null ? '–' : `${Math.round(each.share)} %`}</span>
            <span className="quiet">{each.state === 'usable' ? '' : each.state}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

export function Answer({ answer, asked, method, url }: { answer: Explanation; asked: [string, string][]; method: string; url: string }) {
  return (
    <div className="card steps" aria-live="polite">
      <Section number={1} title="Listen"><Listen answer={answer} url={url} /></Section>
      <Section number={2} title="Route"><Route answer={answer} method={method} /></Section>
      {answer.matched && (
        <>
          <Section number={3} title="Plugins">{answer.pipeline ? <Plugins steps={answer.pipeline} /> : <p>{answer.matched.plugins.join(', ') || <span className="quiet">No plugin runs.</span>}</p>}</Section>
          {answer.forwarded !== undefined && <Section number={4} title="Sent as"><SentAs answer={answer} asked={asked} /></Section>}
          {answer.upstream !== undefined && <Section number={5} title="Endpoint"><Endpoint answer={answer} /></Section>}
        </>
      )}
      <p className="steps-foot quiet">Explained with revision {answer.revision ?? '–'}. Nothing was sent, counted or called.</p>
    </div>
  );
}

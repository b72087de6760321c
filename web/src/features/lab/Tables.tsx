/** Tables of a report: ratios of all scenarios, one scenario with its spread, faults, and the tables of a page. */
import { Card } from '../../ui/Page';
import { count, percent } from '../../ui/format';
import { MEASURES, overall, type Figure, type Page, type Ratio, type Report } from './report';

function value(measure: string, number: number): string {
  if (measure === 'memory_bytes') return (number / 1048576).toFixed(1);
  if (number >= 1000) return count(number);
  return number >= 100 ? number.toFixed(0) : number >= 10 ? number.toFixed(1) : number.toFixed(2);
}

/** Whether a ratio is good, bad or within noise, as a mark and a word. */
function judged(measure: string, ratio: Ratio): { mark: string; word: string; className: string } {
  const lessIsBetter = MEASURES[measure]?.lessIsBetter ?? true;
  if (ratio.verdict !== 'less' && ratio.verdict !== 'more') return { mark: '≈', word: 'within noise', className: 'quiet' };
  const good = (ratio.verdict === 'less') === lessIsBetter;
  return { mark: ratio.verdict === 'less' ? '↓' : '↑', word: ratio.verdict, className: good ? 'lab-good' : 'lab-bad' };
}

function RatioCell({ measure, ratio, absent }: { measure: string; ratio: Ratio | undefined; absent: boolean }) {
  if (!ratio) return <td className="num quiet">{absent ? 'absent' : '–'}</td>;
  const said = judged(measure, ratio);
  return (
    <td className={`num ${said.className}`} title={`${said.word}; 99 % interval ${ratio.interval.map((each) => each.toFixed(2)).join(' to ')}`}>
      <span aria-label={said.word}>{said.mark}</span> {ratio.median.toFixed(2)}
    </td>
  );
}

interface RatiosProps { report: Report; measure: string; contenders: string[]; chosen: string | null; onChoose: (name: string | null) => void }

export function Ratios({ report, measure, contenders, chosen, onChoose }: RatiosProps) {
  const shown = contenders.filter((name) => overall(report, name, measure) !== null);
  const baseline = Object.values(report.summary)[0]?.baseline ?? '';
  const title = report.titles[baseline] || baseline;
  return (
    <Card title={`${MEASURES[measure]?.label ?? measure}, as a multiple of ${title}`} right={<span>↓ less · ↑ more · ≈ within noise</span>}>
      <div className="lab-scroll" tabIndex={0} role="region" aria-label="Ratios by scenario">
        <table className="table lab-table">
          <thead>
            <tr>
              <th scope="col">Scenario</th>
              <th scope="col" className="num">{title}, {MEASURES[measure]?.unit}</th>
              {shown.map((name) => <th scope="col" className="num" key={name} title={report.about[name]}>{report.titles[name] || name}</th>)}
            </tr>
          </thead>
          <tbody>
            <tr className="lab-median">
              <th scope="row">Median of all</th>
              <td />
              {shown.map((name) => {
                const all = overall(report, name, measure)!;
                return <td className="num" key={name} title={`${all.min.toFixed(2)} to ${all.max.toFixed(2)} in ${all.count} scenarios`}><b>{all.median.toFixed(2)}</b></td>;
              })}
            </tr>
            {Object.entries(report.summary).map(([name, scenario]) => {
              const base = scenario.contenders[scenario.baseline]?.figures?.[measure];
              return (
                <tr key={name} data-chosen={name === chosen}>
                  <th scope="row">
                    <button type="button" aria-expanded={name === chosen} onClick={() => onChoose(name === chosen ? null : name)}>{scenario.title}</button>
                  </th>
                  <td className="num dim">{base ? value(measure, base.median) : '–'}</td>
                  {shown.map((each) => (
                    <RatioCell key={each} measure={measure} ratio={scenario.contenders[each]?.over_baseline?.[measure]} absent={Boolean(scenario.contenders[each]?.absent)} />
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function Range({ figure, top }: { figure: Figure; top: number }) {
  const at = (number: number) => `${(number / top) * 100}%`;
  return (
    <span className="lab-range" aria-hidden="true">
      <i style={{ left: at(figure.min), width: `max(2px, ${((figure.max - figure.min) / top) * 100}%)` }} />
      <b style={{ left: at(figure.median) }} />
    </span>
  );
}

export function Scenario({ report, name, measure }: { report: Report; name: string; measure: string }) {
  const scenario = report.summary[name]!;
  const rows = Object.entries(scenario.contenders)
    .filter(([, each]) => each.figures?.[measure])
    .sort(([, a], [, b]) => a.figures[measure]!.median - b.figures[measure]!.median);
  const top = Math.max(1e-9, ...rows.map(([, each]) => each.figures[measure]!.max));
  return (
    <Card title={scenario.title} right={<code>{name}</code>}>
      <div className="lab-scroll" tabIndex={0} role="region" aria-label={scenario.title}>
        <table className="table lab-table">
          <thead>
            <tr>
              <th scope="col">Contender</th><th scope="col" className="num">Median, {MEASURES[measure]?.unit}</th><th scope="col">Smallest to largest round</th>
              <th scope="col" className="num">× {scenario.baseline}</th><th scope="col" className="num">Rounds</th><th scope="col" className="num">Requests</th><th scope="col" className="num">Failures</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([each, contender]) => (
              <tr key={each}>
                <th scope="row">{report.titles[each] || each} <span className="quiet">{report.about[each]}</span></th>
                <td className="num">{value(measure, contender.figures[measure]!.median)}</td>
                <td><Range figure={contender.figures[measure]!} top={top} /></td>
                <RatioCell measure={measure} ratio={contender.over_baseline?.[measure]} absent={false} />
                <td className="num">{contender.rounds}</td>
                <td className="num">{count(contender.requests)}</td>
                <td className={contender.failures > 0 ? 'num level-err' : 'num'}>{count(contender.failures)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(report.notes[name] ?? []).map((note) => <p key={note} className="lab-warning">{note}</p>)}
    </Card>
  );
}

export function FaultRuns({ report }: { report: Report }) {
  const sum = (failures: Record<string, number>) => Object.values(failures).reduce((all, each) => all + each, 0);
  return (
    <Card title="Faults: failed requests before, during and after">
      <div className="lab-scroll" tabIndex={0} role="region" aria-label="Faults">
        <table className="table lab-table">
          <thead>
            <tr>
              <th scope="col">Fault</th><th scope="col">Contender</th><th scope="col">Protection</th>
              {['Before', 'During', 'After'].map((each) => <th scope="col" className="num" key={each}>{each}</th>)}
              <th scope="col" className="num">p99 during, ms</th>
            </tr>
          </thead>
          <tbody>
            {report.faults.slice(0, 500).map((run, at) => (
              <tr key={at}>
                <th scope="row">{run.fault.replace(/_/g, ' ')}</th>
                <td>{report.titles[run.contender] || run.contender}</td>
                <td className="quiet">{run.absent ?? run.protection}</td>
                {[0, 1, 2].map((phase) => {
                  const found = run.phases[phase];
                  if (!found) return <td key={phase} className="num quiet">–</td>;
                  const failed = sum(found.failures);
                  return <td key={phase} className={failed > 0 && phase > 0 ? 'num level-err' : 'num'}>{failed === 0 ? '0' : percent((failed / Math.max(1, found.requests)) * 100)}</td>;
                })}
                <td className="num">{run.phases[1]?.latency ? run.phases[1].latency.p99_ms.toFixed(1) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

export function PageTables({ page }: { page: Page }) {
  return (
    <>
      <Card title={page.title}>{page.lead.map((line, at) => <p key={at} className="lab-warning">{line}</p>)}</Card>
      {page.tables.map((table, at) => (
        <Card key={at} title={table.heading}>
          <div className="lab-scroll" tabIndex={0} role="region" aria-label={table.heading || 'Table'}>
            <table className="table lab-table">
              {table.head.length > 0 && <thead><tr>{table.head.map((cell, index) => <th scope="col" key={index}>{cell}</th>)}</tr></thead>}
              <tbody>{table.rows.map((row, index) => <tr key={index}>{row.map((cell, column) => <td key={column}>{cell}</td>)}</tr>)}</tbody>
            </table>
          </div>
        </Card>
      ))}
    </>
  );
}

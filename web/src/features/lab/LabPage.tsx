/** The laboratory: a report file, opened in the browser. Nothing is uploaded. */
import { useRef, useState, type DragEvent } from 'react';
import { IconFolderOpen } from '@tabler/icons-react';
import { useSearch, useSetSearch } from '../../app/url';
import { Button, Tabs } from '../../ui/Button';
import { CopyText } from '../../ui/CopyText';
import { Card, Page } from '../../ui/Page';
import { Empty, Problem } from '../../ui/Problem';
import { FaultRuns, PageTables, Ratios, Scenario } from './Tables';
import { MAX_BYTES, MEASURES, contendersOf, measuresOf, readFile, type Page as HtmlPage, type Report } from './report';
import './lab.css';

/** Kept while the page lives, so that a look at another page does not close the report. */
const kept: { file: { name: string; report: Report | HtmlPage } | null } = { file: null };

export default function LabPage() {
  const [file, setFile] = useState(kept.file);
  const [error, setError] = useState<Error | null>(null);
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const open = async (chosen: File | undefined) => {
    if (!chosen) return;
    try {
      if (chosen.size > MAX_BYTES) throw new Error('The file is larger than 64 MiB, so it is no report of the laboratory.');
      kept.file = { name: chosen.name, report: readFile(chosen.name, await chosen.text()) };
      setFile(kept.file);
      setError(null);
    } catch (cause) {
      setError(cause instanceof Error ? cause : new Error(String(cause)));
    }
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void open(event.dataTransfer.files[0]);
  };
  const choose = <Button look={file ? 'plain' : 'main'} icon={<IconFolderOpen size={16} stroke={1.75} />} onClick={() => input.current?.click()}>Open a report</Button>;
  return (
    <Page title="Laboratory" note="Reports of weir lab, read in this browser. Nothing is uploaded." actions={file ? choose : undefined}>
      <div
        className="lab" data-over={over} onDrop={drop} onDragLeave={() => setOver(false)}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
      >
        <input
          ref={input} type="file" className="sr" accept=".json,.html,.htm,application/json,text/html" aria-label="Report file" tabIndex={-1}
          onChange={(event) => {
            void open(event.target.files?.[0]);
            event.target.value = '';
          }}
        />
        {error && <Problem title="This file cannot be shown." error={error} />}
        {!file ? (
          <section className="card">
            <Empty title="Open or drop the JSON or HTML file of a run." action={choose} curl="weir lab run --quick --save result.json" />
          </section>
        ) : file.report.kind === 'page' ? <PageTables page={file.report} /> : <ReportView report={file.report} name={file.name} />}
      </div>
    </Page>
  );
}

function ReportView({ report, name }: { report: Report; name: string }) {
  const search = useSearch();
  const set = useSetSearch();
  const measures = measuresOf(report);
  const measure = measures.includes(search.measure ?? '') ? search.measure! : (measures[0] ?? '');
  const scenario = search.scenario && report.summary[search.scenario] ? search.scenario : null;
  const hasScenarios = Object.keys(report.summary).length > 0;
  return (
    <>
      <Card className="lab-head">
        <dl className="lab-facts">
          <dt>File</dt><dd>{name}</dd>
          <dt>Run</dt><dd>{report.started.replace('T', ' ').replace('Z', ' UTC')}, {Math.round(report.seconds / 60)} min, Weir {report.weir}</dd>
          <dt>Machine</dt><dd>{report.machine.cpu}, {report.machine.cores} cores, {report.machine.system}, kernel {report.machine.kernel}</dd>
          <dt>Command</dt><dd><CopyText text={report.command} /></dd>
        </dl>
        {report.machine.warnings.map((warning) => <p key={warning} className="lab-warning">{warning}</p>)}
      </Card>
      {hasScenarios && (
        <>
          <Tabs label="Measure" value={measure} options={measures.map((each) => ({ value: each, label: MEASURES[each]!.label }))} onChange={(value) => set({ measure: value })} panel="lab-panel" />
          <div id="lab-panel" role="tabpanel" aria-label={MEASURES[measure]?.label} className="lab-panel">
            <Ratios report={report} measure={measure} contenders={contendersOf(report)} chosen={scenario} onChoose={(value) => set({ scenario: value })} />
            {scenario && <Scenario report={report} name={scenario} measure={measure} />}
          </div>
        </>
      )}
      {report.faults.length > 0 && <FaultRuns report={report} />}
    </>
  );
}

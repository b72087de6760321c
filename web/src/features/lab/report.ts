/** Reads a result file of `weir lab run` or `weir lab faults` (format 1), or the tables of its HTML page. */

export interface Figure { median: number; min: number; max: number; median_deviation: number }
export interface Ratio { median: number; min: number; max: number; interval: [number, number]; verdict: string }
export interface ContenderSummary {
  absent: string | null;
  rounds: number;
  requests: number;
  failures: number;
  saturated: boolean | null;
  figures: Record<string, Figure>;
  over_baseline: Record<string, Ratio>;
}
export interface ScenarioSummary { title: string; baseline: string; contenders: Record<string, ContenderSummary> }
export interface FaultRun {
  fault: string;
  contender: string;
  protection: string;
  absent: string | null;
  phases: { seconds: number; requests: number; failures: Record<string, number>; latency: { p50_ms: number; p99_ms: number } | null }[];
}
export interface Report {
  kind: 'report';
  weir: string;
  started: string;
  seconds: number;
  command: string;
  machine: { cpu: string; cores: number; system: string; kernel: string; warnings: string[] };
  titles: Record<string, string>;
  about: Record<string, string>;
  notes: Record<string, string[]>;
  summary: Record<string, ScenarioSummary>;
  faults: FaultRun[];
}
export interface Page { kind: 'page'; title: string; lead: string[]; tables: { heading: string; head: string[]; rows: string[][] }[] }

/** Largest file that is read; the largest kept result has 2.5 MB. */
export const MAX_BYTES = 64 * 1024 * 1024;
/** Tables of a page, and rows of a table, that are shown. */
const MAX_TABLES = 300;
const MAX_ROWS = 500;

const record = (value: unknown): Record<string, unknown> => (value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : {});
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Measures in the order in which they are offered, with their words. */
export const MEASURES: Record<string, { label: string; unit: string; lessIsBetter: boolean }> = {
  cpu_us: { label: 'CPU a request', unit: 'µs', lessIsBetter: true },
  requests_per_second: { label: 'Requests a second', unit: '/s', lessIsBetter: false },
  p50_ms: { label: 'p50', unit: 'ms', lessIsBetter: true },
  p99_ms: { label: 'p99', unit: 'ms', lessIsBetter: true },
  memory_bytes: { label: 'Memory', unit: 'MiB', lessIsBetter: true },
  user_us: { label: 'CPU in the program', unit: 'µs', lessIsBetter: true },
  system_us: { label: 'CPU in the kernel', unit: 'µs', lessIsBetter: true },
  switches: { label: 'Context switches', unit: 'a request', lessIsBetter: true },
};

/** Reads the JSON of a result; throws with a sentence when it is another file. */
export function readReport(source: string): Report {
  let data: Record<string, unknown>;
  try {
    data = record(JSON.parse(source));
  } catch {
    throw new Error('The file is neither JSON nor a page of the laboratory.');
  }
  if (typeof data.format !== 'number' || !('machine' in data)) {
    throw new Error('The file is JSON, but no result of "weir lab run" or "weir lab faults": it has no format and machine.');
  }
  if (data.format !== 1) throw new Error(`The file has format ${String(data.format)}; this page reads format 1.`);
  const machine = record(data.machine);
  const titles: Record<string, string> = {};
  const about: Record<string, string> = {};
  for (const each of list(data.contenders)) {
    const definition = record(record(each).definition);
    titles[text(definition.name)] = text(definition.title);
    about[text(definition.name)] = text(definition.version);
  }
  const notes: Record<string, string[]> = {};
  for (const each of list(data.scenarios)) notes[text(record(record(each).scenario).name)] = list(record(each).notes).map(text);
  return {
    kind: 'report', weir: text(data.weir), started: text(data.started), seconds: Number(data.seconds) || 0, command: text(data.command),
    machine: {
      cpu: text(machine.cpu), cores: Number(machine.cores) || 0, system: text(machine.system), kernel: text(machine.kernel), warnings: list(machine.warnings).map(text),
    },
    titles, about, notes,
    summary: record(data.summary) as Record<string, ScenarioSummary>,
    faults: list(record(data.faults).runs) as FaultRun[],
  };
}

/** Measures that at least one contender has, in the order of the list. */
export function measuresOf(report: Report): string[] {
  const found = new Set<string>();
  for (const scenario of Object.values(report.summary)) {
    for (const contender of Object.values(scenario.contenders)) for (const name of Object.keys(contender.figures ?? {})) found.add(name);
  }
  return Object.keys(MEASURES).filter((name) => found.has(name));
}

/** Contenders of all scenarios, Weir and the baseline first, then by name. */
export function contendersOf(report: Report): string[] {
  const names = new Set<string>();
  const baselines = new Set<string>();
  for (const scenario of Object.values(report.summary)) {
    baselines.add(scenario.baseline);
    for (const name of Object.keys(scenario.contenders)) names.add(name);
  }
  const rank = (name: string) => (name === 'weir' ? 0 : baselines.has(name) ? 1 : name.startsWith('weir') ? 2 : 3);
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** Median of the ratios of one contender over all scenarios, with the smallest and the largest. */
export function overall(report: Report, contender: string, measure: string): { median: number; min: number; max: number; count: number } | null {
  const ratios = Object.values(report.summary)
    .map((scenario) => scenario.contenders[contender]?.over_baseline?.[measure]?.median)
    .filter((value): value is number => typeof value === 'number')
    .sort((a, b) => a - b);
  if (ratios.length === 0) return null;
  const middle = Math.floor(ratios.length / 2);
  const median = ratios.length % 2 === 1 ? ratios[middle]! : (ratios[middle - 1]! + ratios[middle]!) / 2;
  return { median, min: ratios[0]!, max: ratios.at(-1)!, count: ratios.length };
}

/** Reads the tables of a page that `weir lab report` wrote. Nothing of the page is run or shown as markup. */
export function readPage(source: string): Page {
  const parsed = new DOMParser().parseFromString(source, 'text/html');
  const clean = (node: Element) => (node.textContent ?? '').replace(/\s+/g, ' ').trim();
  const title = parsed.querySelector('h1');
  if (!title) throw new Error('The page has no title, so it is no page of the laboratory.');
  const tables: Page['tables'] = [];
  let heading = '';
  for (const node of parsed.querySelectorAll('h2, h3, table')) {
    if (node.tagName !== 'TABLE') {
      heading = clean(node);
      continue;
    }
    if (tables.length >= MAX_TABLES) break;
    const rows = [...node.querySelectorAll('tr')].slice(0, MAX_ROWS).map((row) => [...row.children].map(clean));
    const hasHead = node.querySelector('thead') !== null || node.querySelector('tr')?.querySelector('td') === null;
    tables.push({ heading, head: hasHead ? (rows[0] ?? []) : [], rows: hasHead ? rows.slice(1) : rows });
  }
  return { kind: 'page', title: clean(title), lead: [...parsed.querySelectorAll('p.lead, p.meta')].slice(0, 20).map(clean), tables };
}

/** Reads either kind of file. */
export function readFile(name: string, source: string): Report | Page {
  return /\.html?$/i.test(name) || /^\s*<!doctype html/i.test(source) ? readPage(source) : readReport(source);
}

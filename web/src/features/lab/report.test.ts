// @vitest-environment jsdom
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { contendersOf, measuresOf, overall, readFile, readPage, readReport } from './report';

const RESULTS = new URL('../../../../lab/results/', `file://${__filename}`);
const load = (name: string) => readFileSync(new URL(name, RESULTS), 'utf8');

it('result of turns has scenarios and contenders', () => {
  const report = readReport(load('0.1.0-turns.json'));
  expect(Object.keys(report.summary).length).toBe(25);
  expect(contendersOf(report).slice(0, 2)).toEqual(['weir', 'nginx']);
  expect(measuresOf(report)).toContain('cpu_us');
  expect(measuresOf(report)).not.toContain('p99_ms');
  const ratio = overall(report, 'weir', 'cpu_us')!;
  expect(ratio.median).toBeGreaterThan(0.5);
  expect(ratio.median).toBeLessThan(1);
});
it('result of faults has its runs', () => {
  const report = readReport(load('0.1.0-faults.json'));
  expect(report.faults.length).toBeGreaterThan(10);
  expect(report.faults[0]!.phases).toHaveLength(3);
});
it('other files are refused with a reason', () => {
  expect(() => readReport('{}')).toThrow('no result');
  expect(() => readReport('{"format":2,"machine":{}}')).toThrow('format 2');
  expect(() => readFile('a.json', 'no json')).toThrow('neither JSON');
});
it('page is read as text', () => {
  const page = readPage('<!doctype html><h1>A <b>run</b></h1><h2>Small</h2><table><tr><th>x</th></tr><tr><td><script>alert(1)</script>1</td></tr></table>');
  expect(page.title).toBe('A run');
  expect(page.tables).toEqual([{ heading: 'Small', head: ['x'], rows: [['alert(1)1']] }]);
});

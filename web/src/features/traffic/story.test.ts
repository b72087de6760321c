import { expect, it } from 'vitest';
import type { RequestRecord, Span } from '../../api/types';
import { attemptOf, grouped, story } from './story';

const span = (group: string, name: string, failed = false, detail: string | null = null): Span => ({ name, group, at_us: 0, us: 1100, failed, detail });
const record = {
  status: 502, cause: 'origin_closed', blame: 'upstream', detail: null, endpoint: '10.0.0.2:80', attempts: 2, total_us: 38_000,
  spans: [span('attempt 1 10.0.0.1:80', 'connect', true, 'connect_failed'), span('attempt 2 10.0.0.2:80', 'connect'), span('attempt 2 10.0.0.2:80', 'wait', true)],
} as unknown as RequestRecord;

it('failure names endpoint, cause and attempts', () => {
  const { lead, rest } = story(record);
  expect(lead).toBe('The endpoint 10.0.0.2:80 closed the connection before it answered');
  expect(rest).toBe(' (origin_closed), after 1.1 ms. It was the second attempt. Attempt 1 at 10.0.0.1:80 failed: connect_failed.');
});
it('plugin is named when it answered', () => {
  expect(story({ ...record, status: 401, cause: 'key-auth', blame: 'client', spans: [], attempts: 0 }).lead).toBe('key-auth answered 401');
});
it('status of an endpoint names it', () => {
  const { lead } = story({ ...record, status: 503, cause: 'upstream_status', spans: [], attempts: 1 });
  expect(lead).toBe('The endpoint 10.0.0.2:80 answered 503');
});
it('success says where and how long', () => {
  expect(story({ ...record, status: 200, cause: null, attempts: 1 })).toEqual({ lead: 'The endpoint 10.0.0.2:80 answered 200', rest: ' after 38.0 ms.' });
});
it('groups keep their order', () => {
  expect(grouped(record.spans).map((each) => each.spans.length)).toEqual([1, 2]);
  expect(attemptOf('attempt 2 10.0.0.2:80')).toEqual({ number: 2, address: '10.0.0.2:80' });
  expect(attemptOf('gateway')).toBeNull();
});

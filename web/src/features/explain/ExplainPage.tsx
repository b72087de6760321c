/** Explain: which route a request would take, what its plugins would do, where it would go. Nothing is sent. */
import { useEffect, useRef, useState, type FormEvent } from 'react';
import { IconClipboard, IconPlayerPlay } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { get, post } from '../../api/client';
import { isCurl, parseCurl } from '../../api/curl';
import type { ExplainQuestion, Explanation } from '../../api/explain';
import { keys } from '../../api/keys';
import type { Failures } from '../../api/types';
import { takeQuestion, type Question } from '../../app/handoff';
import { useSearch, useSetSearch } from '../../app/url';
import { Button } from '../../ui/Button';
import { Page } from '../../ui/Page';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { Answer } from './Answer';
import { Headers } from './Headers';
import './explain.css';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'];

function bodyOf(question: Question): ExplainQuestion {
  const headers = question.headers.filter(([name]) => name.trim() !== '');
  const body: ExplainQuestion = { method: question.method, url: question.url, headers };
  if (question.client) body.remote_addr = question.client;
  if (question.bodyBytes) body.body_bytes = question.bodyBytes;
  return body;
}

export default function ExplainPage() {
  const search = useSearch();
  const set = useSetSearch();
  const [method, setMethod] = useState(search.method ?? 'GET');
  const [url, setUrl] = useState(search.url ?? '');
  const [client, setClient] = useState(search.client ?? '');
  const [headers, setHeaders] = useState<[string, string][]>([]);
  const [bodyBytes, setBodyBytes] = useState<number | undefined>();
  const [pasting, setPasting] = useState(search.paste === '1');
  const [asked, setAsked] = useState<Question | null>(null);
  const run = useMutation({ mutationFn: (question: Question) => post<Explanation>('weir/explain', bodyOf(question)) });
  const recent = useQuery({ queryKey: keys.failures(''), queryFn: ({ signal }) => get<Failures>('weir/failures', { limit: 20 }, signal) });
  const ran = useRef<string | null>(null);

  const ask = (question: Question) => {
    if (question.url.trim() === '') return;
    setMethod(question.method);
    setUrl(question.url);
    setHeaders(question.headers);
    setClient(question.client ?? '');
    setBodyBytes(question.bodyBytes);
    setPasting(false);
    setAsked(question);
    const address = { method: question.method === 'GET' ? null : question.method, url: question.url, client: question.client || null, paste: null };
    ran.current = `${question.method} ${question.url} ${question.client ?? ''}`;
    set(address, true);
    run.mutate(question);
  };

  // A question comes with the address, or from another page with headers that must not be in an address.
  useEffect(() => {
    const handed = takeQuestion();
    if (handed) {
      ask(handed);
      return;
    }
    const next = { method: search.method ?? 'GET', url: search.url ?? '', headers: asked?.url === search.url ? headers : [], client: search.client };
    if (next.url !== '' && ran.current !== `${next.method} ${next.url} ${next.client ?? ''}`) ask(next);
    // Only a changed address asks by itself.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [search.method, search.url, search.client]);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    ask({ method, url, headers, client: client.trim() || undefined, bodyBytes });
  };
  const takePasted = (text: string): boolean => {
    if (!isCurl(text)) return false;
    try {
      const read = parseCurl(text);
      ask({ method: read.method, url: read.url, headers: read.headers, client: client.trim() || undefined, bodyBytes: read.bodyBytes ?? undefined });
      return true;
    } catch {
      return false;
    }
  };
  const failures = recent.data?.list ?? [];
  return (
    <Page title="Explain" note="Where a request would go, and why. Nothing is sent.">
      <form className="explain-form card" onSubmit={submit}>
        <div className="explain-ask">
          <select className="input" aria-label="Method" value={method} onChange={(event) => setMethod(event.target.value)}>
            {[...new Set([...METHODS, method])].map((each) => <option key={each}>{each}</option>)}
          </select>
          <input
            className="input mono grow" aria-label="URL" data-filter="" value={url} placeholder="https://shop.example/checkout/7421/pay" spellCheck={false} required
            onChange={(event) => setUrl(event.target.value)}
            onPaste={(event) => {
              if (takePasted(event.clipboardData.getData('text/plain'))) event.preventDefault();
            }}
          />
          <label className="explain-client">client <input className="input mono" value={client} placeholder="127.0.0.1" onChange={(event) => setClient(event.target.value)} spellCheck={false} aria-label="Client address" /></label>
          <Button look="main" type="submit" disabled={run.isPending} icon={<IconPlayerPlay size={16} stroke={1.75} />}>Run</Button>
          <Button icon={<IconClipboard size={16} stroke={1.75} />} pressed={pasting} onClick={() => setPasting(!pasting)}>Paste curl</Button>
        </div>
        {pasting && <PasteCurl onTake={takePasted} />}
        <div className="explain-more">
          <Headers headers={headers} onChange={setHeaders} />
          {bodyBytes ? <p className="quiet">Body of {bodyBytes} bytes; its text does not take part.</p> : null}
          {failures.length > 0 && (
            <label className="explain-recent">
              or a failed request{' '}
              <select
                className="input" value="" onChange={(event) => {
                  const record = failures.find((each) => each.id === event.target.value);
                  if (record) ask({ method: record.method, url: `${record.scheme}://${record.host}${record.path}`, headers: [], client: record.client });
                }}
              >
                <option value="" disabled>choose</option>
                {failures.map((each) => <option key={each.id} value={each.id}>{`${each.status} ${each.method} ${each.host}${each.path}`.slice(0, 90)}</option>)}
              </select>
            </label>
          )}
        </div>
      </form>
      {run.isPending && !run.data ? <Skeleton lines={8} /> : run.error ? (
        <Problem title="This request cannot be explained." error={run.error} />
      ) : run.data && asked ? (
        <Answer answer={run.data} asked={asked.headers} method={asked.method} url={asked.url} />
      ) : (
        <section className="card"><Empty title="Write a method and a URL, or paste a curl line. The answer names the route, the routes that lost, each plugin and the endpoint." /></section>
      )}
    </Page>
  );
}

function PasteCurl({ onTake }: { onTake: (text: string) => boolean }) {
  const [text, setText] = useState('');
  const [bad, setBad] = useState<string | null>(null);
  const take = (value: string) => {
    setText(value);
    if (value.trim() === '' || onTake(value)) {
      setBad(null);
      return;
    }
    try {
      parseCurl(value);
      setBad('The line does not begin with curl.');
    } catch (error) {
      setBad(`This is no curl line yet: ${(error as Error).message}.`);
    }
  };
  return (
    <div className="explain-paste">
      <textarea
        className="input mono" aria-label="curl line" autoFocus rows={3} placeholder="curl -X POST https://shop.example/a -H 'authorization: …' --data '…'" value={text} spellCheck={false}
        onChange={(event) => setText(event.target.value)} onPaste={(event) => {
          event.preventDefault();
          take(event.clipboardData.getData('text/plain'));
        }}
      />
      <div className="row">
        <Button onClick={() => take(text)} disabled={text.trim() === ''}>Explain this line</Button>
        {bad && <span className="level-err" role="alert">{bad}</span>}
      </div>
    </div>
  );
}

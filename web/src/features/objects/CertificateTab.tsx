/** A certificate as the instance serves it (E15), and its replacement: the pair is checked before it reaches the form. */
import { useState, type DragEvent } from 'react';
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import type { Certificate } from '../../api/types';
import { withValue } from '../../forms/document';
import type { Json } from '../../forms/json';
import { Button } from '../../ui/Button';
import { Mark, StateText } from '../../ui/Mark';
import { Problem } from '../../ui/Problem';
import { count, day } from '../../ui/format';
import { Expiry } from './kinds/cells';
import { checkPair, pemBlocks } from './pem';

/** Longest file that is taken, in bytes. */
const MOST_BYTES = 1_048_576;

export function CertificateTab({ id, document, writable, onReplace }: { id: string; document: Json; writable: boolean; onReplace: (next: Json) => void }) {
  const { data, error } = useQuery({ queryKey: keys.certificates(id), queryFn: ({ signal }) => get<{ list: Certificate[] }>('weir/certificates', { q: id }, signal) });
  const served = data?.list.find((one) => one.kind === 'ssls' && one.id === id);
  return (
    <div className="panes">
      <section className="card" aria-label="Certificate in force">
        <div className="card-head"><h2>In force</h2></div>
        {error ? <Problem title="The certificates could not be loaded." error={error} /> : served ? (
          <dl className="facts pad">
            <dt>State</dt><dd><StateText state={served.state} /></dd>
            <dt>Names</dt><dd><code>{served.names.join('  ')}</code></dd>
            <dt>Expires in</dt><dd><Expiry ms={served.not_after_ms} /></dd>
            <dt>Valid from</dt><dd>{day(served.not_before_ms)}</dd>
            <dt>Key</dt><dd>{served.key_type}</dd>
            <dt>Issuer</dt><dd>{served.issuer}</dd>
            <dt>Routes</dt><dd>{count(served.routes)}</dd>
          </dl>
        ) : <p className="quiet pad">{data ? 'The instance does not serve this certificate.' : 'Loading…'}</p>}
      </section>
      {writable ? <Replace document={document} onReplace={onReplace} /> : null}
    </div>
  );
}

function Replace({ document, onReplace }: { document: Json; onReplace: (next: Json) => void }) {
  const [text, setText] = useState('');
  const [over, setOver] = useState(false);
  const [tooLarge, setTooLarge] = useState(false);
  const blocks = pemBlocks(text);
  const chain = blocks.filter((block) => block.label === 'CERTIFICATE').map((block) => block.text).join('');
  const key = blocks.filter((block) => block.label.endsWith('PRIVATE KEY')).map((block) => block.text).join('');
  const checked = text.trim() === '' ? null : checkPair(chain, key, Date.now());
  const leaf = checked?.certificates[0];
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const files = [...event.dataTransfer.files];
    if (files.some((file) => file.size > MOST_BYTES)) {
      setTooLarge(true);
      return;
    }
    setTooLarge(false);
    const texts = await Promise.all(files.map((file) => file.text()));
    setText((old) => [old, ...texts].filter((part) => part.trim() !== '').join('\n'));
  };
  const take = () => {
    let next = withValue(withValue(document, '/cert', chain), '/key', key);
    if (leaf && leaf.names.length > 0) next = withValue(next, '/snis', leaf.names);
    setText('');
    onReplace(next);
  };
  return (
    <section className="card" aria-label="Replace the certificate">
      <div className="card-head"><h2>Replace</h2></div>
      <div className="pad">
        <div className="drop" data-over={over || undefined} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={(event) => void drop(event)}>
          <label htmlFor="pem">Drop or paste the certificate chain and its key, as PEM. The key stays in this page until it is saved and is never shown again.</label>
          <textarea id="pem" className="input mono" rows={6} style={{ height: 'auto', resize: 'vertical' }} spellCheck={false} autoComplete="off" value={text} onChange={(event) => setText(event.target.value)} />
          {tooLarge ? <p className="level-err" role="alert">A file is larger than 1 MiB; a certificate is not.</p> : null}
          {checked ? (
            <>
              {leaf ? <dl className="facts"><dt>Subject</dt><dd>{leaf.subject}</dd><dt>Names</dt><dd><code>{leaf.names.join('  ')}</code></dd><dt>Valid</dt><dd>{day(leaf.notBefore)} to {day(leaf.notAfter)}</dd><dt>Issuer</dt><dd>{leaf.issuer}, {checked.certificates.length} in the chain</dd></dl> : null}
              <ul className="fault-list" role="status">
                {checked.faults.map((fault) => <li key={fault}><Mark state="err" label="" /><span>{fault}</span></li>)}
                {checked.warnings.map((warning) => <li key={warning}><Mark state="warn" label="" /><span>{warning}</span></li>)}
                {checked.faults.length === 0 && checked.warnings.length === 0 ? <li><Mark state="ok" label="" /><span>Names, dates, order and key fit.</span></li> : null}
              </ul>
            </>
          ) : null}
          <div className="row">
            <Button look="main" disabled={!checked || checked.faults.length > 0} onClick={take}>Review and save…</Button>
            {text !== '' ? <Button onClick={() => setText('')}>Clear</Button> : null}
          </div>
        </div>
      </div>
    </section>
  );
}

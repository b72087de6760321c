/** Header fields of the question; values of credentials are hidden while they are not edited. */
import { IconPlus, IconX } from '@tabler/icons-react';
import { Button, IconButton } from '../../ui/Button';
import { isSecretHeader } from './words';

/** More fields than a browser sends make no better question. */
const MAX_HEADERS = 60;

interface Props {
  headers: [string, string][];
  onChange: (headers: [string, string][]) => void;
}

export function Headers({ headers, onChange }: Props) {
  const change = (at: number, part: 0 | 1, text: string) =>
    onChange(headers.map((each, index) => (index === at ? (part === 0 ? [text, each[1]] : [each[0], text]) : each)));
  return (
    <fieldset className="explain-headers">
      <legend>Headers</legend>
      {headers.map(([name, value], at) => (
        <div key={at} className="explain-header">
          <input className="input mono" value={name} placeholder="name" aria-label={`Name of header ${at + 1}`} onChange={(event) => change(at, 0, event.target.value)} spellCheck={false} />
          <input
            className="input mono" value={value} placeholder="value" aria-label={`Value of header ${name || at + 1}`} spellCheck={false} autoComplete="off"
            type={isSecretHeader(name) ? 'password' : 'text'} onChange={(event) => change(at, 1, event.target.value)}
          />
          <IconButton label={`Remove header ${name || at + 1}`} icon={<IconX size={14} stroke={1.75} />} onClick={() => onChange(headers.filter((_, index) => index !== at))} />
        </div>
      ))}
      <Button look="bare" icon={<IconPlus size={14} stroke={1.75} />} disabled={headers.length >= MAX_HEADERS} onClick={() => onChange([...headers, ['', '']])}>Add a header</Button>
    </fieldset>
  );
}

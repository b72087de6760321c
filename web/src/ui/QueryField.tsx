/** The filter field: one query grammar for all lists, suggestions of field names and values, an error with a caret below. */
import { useEffect, useId, useLayoutEffect, useRef, useState, type ReactNode } from 'react';
import { IconFilter } from '@tabler/icons-react';
import { ApiError } from '../api/client';
import './query.css';

interface Props {
  value: string;
  onChange: (value: string, commit: boolean) => void;
  /** Names of fields that the list knows. */
  fields: string[];
  /** Known values of a field, for suggestions after `field:`. */
  values?: (field: string) => string[];
  /** The server's answer to the query, if it refused it (400 with `at` and `expected`). */
  error?: unknown;
  placeholder?: string;
  label?: string;
  right?: ReactNode;
}

/** Values of one field that are remembered for suggestions: more than a person looks through. */
const VALUES_MAX = 200;

/** The word at the caret: where it begins and its text. */
export function wordAt(text: string, caret: number): { from: number; to: number; word: string } {
  let from = caret;
  while (from > 0 && !/\s/.test(text[from - 1]!)) from -= 1;
  let to = caret;
  while (to < text.length && !/\s/.test(text[to]!)) to += 1;
  return { from, to, word: text.slice(from, caret) };
}

/** Suggestions for the word at the caret, at most eight. */
export function suggest(word: string, fields: string[], values?: (field: string) => string[]): string[] {
  const negated = word.startsWith('-') ? '-' : '';
  const bare = word.slice(negated.length);
  const colon = bare.indexOf(':');
  if (colon < 0) {
    if (bare === '') return [];
    return fields.filter((field) => field.startsWith(bare.toLowerCase())).map((field) => `${negated}${field}:`).slice(0, 8);
  }
  const field = bare.slice(0, colon);
  const typed = bare.slice(colon + 1);
  const comma = typed.lastIndexOf(',') + 1;
  const head = typed.slice(0, comma);
  const last = typed.slice(comma).toLowerCase();
  return (values?.(field) ?? [])
    .filter((value) => value.toLowerCase().includes(last) && value !== typed.slice(comma))
    .map((value) => `${negated}${field}:${head}${/\s/.test(value) ? `"${value}"` : value}`)
    .slice(0, 8);
}

export function QueryField({ value, onChange, fields, values, error, placeholder, label = 'Filter', right }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const [caret, setCaret] = useState(0);
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const id = useId();
  /** Values that were sent and have not come back. A slow page gets them late, and must not undo what was typed since. */
  const sent = useRef<string[]>([]);
  const place = useRef<number | null>(null);
  /** Values by field that were known while this page is open: a half-typed filter may empty the list that has them. */
  const known = useRef(new Map<string, string[]>());

  useEffect(() => {
    const back = sent.current.lastIndexOf(value);
    if (back < 0) setText(value);
    sent.current = back < 0 ? [] : sent.current.slice(back + 1);
  }, [value]);
  // Before the next key: a caret that moves later would put letters typed meanwhile behind the next ones.
  useLayoutEffect(() => {
    if (place.current !== null) input.current?.setSelectionRange(place.current, place.current);
    place.current = null;
  });

  const remembered = (field: string): string[] => {
    const all = [...new Set([...(values?.(field) ?? []), ...(known.current.get(field) ?? [])])].slice(0, VALUES_MAX);
    known.current.set(field, all);
    return all;
  };
  /** Before each change, because the half-typed name of a field already filters the list, and may empty it. */
  const rememberAll = () => fields.forEach(remembered);
  const { from, to, word } = wordAt(text, caret);
  const list = open ? suggest(word, fields, remembered) : [];
  const refused = error instanceof ApiError && error.status === 400 ? error : null;
  const at = typeof refused?.body.at === 'number' ? refused.body.at : null;

  const change = (next: string, commit: boolean) => {
    setText(next);
    const trimmed = next.trim();
    if (trimmed !== (sent.current.at(-1) ?? value)) sent.current.push(trimmed);
    onChange(trimmed, commit);
  };
  const take = (item: string) => {
    const rest = text.slice(to);
    const next = text.slice(0, from) + item + (item.endsWith(':') || rest.startsWith(' ') ? '' : ' ') + rest;
    change(next, false);
    place.current = from + item.length + (item.endsWith(':') ? 0 : 1);
    setCaret(place.current);
    setChosen(-1);
  };
  return (
    <div className="query" data-bad={refused !== null}>
      <div className="query-box">
        <IconFilter size={16} stroke={1.75} aria-hidden="true" />
        <input
          ref={input} data-filter="" value={text} placeholder={placeholder} aria-label={label} spellCheck={false} autoComplete="off"
          role="combobox" aria-expanded={list.length > 0} aria-controls={`${id}-list`} aria-autocomplete="list"
          aria-activedescendant={chosen >= 0 ? `${id}-${chosen}` : undefined} aria-invalid={refused !== null}
          aria-describedby={refused ? `${id}-error` : undefined}
          onFocus={rememberAll}
          onChange={(event) => {
            rememberAll();
            setCaret(event.target.selectionStart ?? event.target.value.length);
            setOpen(true);
            setChosen(-1);
            change(event.target.value, false);
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
          onBlur={() => window.setTimeout(() => setOpen(false), 150)}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
              if (list.length === 0) return;
              event.preventDefault();
              setChosen((old) => (old + (event.key === 'ArrowDown' ? 1 : -1) + list.length + (old < 0 && event.key === 'ArrowUp' ? 1 : 0)) % list.length);
            } else if (event.key === 'Enter') {
              event.preventDefault();
              if (chosen >= 0 && list[chosen]) take(list[chosen]);
              else {
                setOpen(false);
                change(text, true);
              }
            } else if (event.key === 'Tab' && chosen >= 0 && list[chosen]) {
              event.preventDefault();
              take(list[chosen]);
            } else if (event.key === 'Escape') {
              event.preventDefault();
              if (list.length > 0) setOpen(false);
              else if (text !== '') change('', true);
              else input.current?.blur();
            }
          }}
        />
        {text !== '' && (
          <button type="button" className="query-clear" onClick={() => { change('', true); input.current?.focus(); }}>Clear</button>
        )}
        {right}
        <kbd className="kbd" aria-hidden="true">/</kbd>
      </div>
      {list.length > 0 && (
        <ul className="query-list" id={`${id}-list`} role="listbox" aria-label="Suggestions">
          {list.map((item, index) => (
            <li key={item} id={`${id}-${index}`} role="option" aria-selected={index === chosen} onMouseDown={(event) => { event.preventDefault(); take(item); }}>
              {item}
            </li>
          ))}
        </ul>
      )}
      {refused && (
        <div className="query-error" id={`${id}-error`} role="status">
          {at !== null && <pre aria-hidden="true">{`${text.slice(0, 200)}\n${' '.repeat(Math.min(at, 200))}^`}</pre>}
          <span>{refused.message}</span>
          {refused.body.expected && refused.body.expected.length > 0 && <span className="quiet"> Expected: {refused.body.expected.join(', ')}</span>}
        </div>
      )}
    </div>
  );
}

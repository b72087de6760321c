/** State marks: a shape, a colour and a word, so that a state never depends on its colour. */
import './marks.css';

export type MarkKind = 'ok' | 'warn' | 'err' | 'off' | 'half';

/** Words that the API uses for states, and their marks. */
const OF_STATE: Record<string, MarkKind> = {
  in_force: 'ok', up: 'ok', usable: 'ok', ok: 'ok',
  last_good: 'warn', warn: 'warn', soon: 'warn', attention: 'warn', not_yet: 'warn',
  out: 'err', down: 'err', err: 'err', unhealthy: 'err', ejected: 'err', expired: 'err', failed: 'err',
  off: 'off', unknown: 'off', disabled: 'off',
  warming: 'half', draining: 'half', half: 'half',
};
const WORDS: Record<string, string> = {
  in_force: 'in force', last_good: 'last good form', not_yet: 'not yet valid', soon: 'expires soon', usable: 'up',
};

export function markOf(state: string): MarkKind {
  return OF_STATE[state] ?? 'off';
}
export function wordOf(state: string): string {
  return WORDS[state] ?? state.replace(/_/g, ' ');
}

interface Props {
  /** A mark, or a state of the API. */
  state: string;
  /** The word for screen readers and the title; left out: the state's word. Empty: a word stands beside the mark. */
  label?: string;
  size?: number;
}

/** The shape alone. */
export function Mark({ state, label, size = 10 }: Props) {
  const kind = markOf(state);
  const word = label ?? wordOf(state);
  const hidden = word === '' ? { 'aria-hidden': true } : { role: 'img', 'aria-label': word };
  return (
    <svg className={`mark mark-${kind}`} width={size} height={size} viewBox="0 0 10 10" {...hidden}>
      {word !== '' && <title>{word}</title>}
      {kind === 'ok' && <circle cx="5" cy="5" r="4.5" />}
      {kind === 'warn' && <path d="M5 .6 9.9 9.4H.1Z" />}
      {kind === 'err' && (
        <>
          <rect x=".2" y=".2" width="9.600" height="9.600" rx="1.500" />
          <path className="mark-cross" d="m3 3 4 4m0-4L3 7" />
        </>
      )}
      {kind === 'off' && <circle className="mark-line" cx="5" cy="5" r="3.900" />}
      {kind === 'half' && (
        <>
          <circle className="mark-line" cx="5" cy="5" r="3.900" />
          <path d="M5 .5a4.500 4.500 0 0 1 0 9Z" />
        </>
      )}
    </svg>
  );
}

/** The mark with its word. */
export function StateText({ state, label }: { state: string; label?: string }) {
  const kind = markOf(state);
  return (
    <span className={`state state-${kind}`}>
      <Mark state={state} label="" />
      <span>{label ?? wordOf(state)}</span>
    </span>
  );
}

/** A text with a button that copies it; works without a secure context too. */
import { useEffect, useRef, useState } from 'react';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { IconButton } from './Button';
import './copy.css';

/** Copies a text; pages on plain HTTP have no clipboard interface, so a hidden field is the fallback. */
export async function copy(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // refused: the old way is tried
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr';
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

export function CopyButton({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const [done, setDone] = useState(false);
  const timer = useRef<number>(undefined);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const run = async () => {
    setDone(await copy(typeof text === 'string' ? text : text()));
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setDone(false), 1500);
  };
  return <IconButton label={done ? 'Copied' : label} onClick={run} icon={done ? <IconCheck size={14} stroke={1.75} /> : <IconCopy size={14} stroke={1.75} />} />;
}

export function CopyText({ text, block = false }: { text: string; block?: boolean }) {
  return (
    <span className={block ? 'copy copy-block' : 'copy'}>
      <code>{text}</code>
      <CopyButton text={text} />
    </span>
  );
}

/** Draws Markdown as elements of the page. */
import { Fragment, useMemo } from 'react';
import { CopyButton } from '../../ui/CopyText';
import { readMarkdown, type Inline } from './markdown';

function Parts({ parts }: { parts: Inline[] }) {
  return parts.map((part, index) => {
    if (part.kind === 'text') return <Fragment key={index}>{part.text}</Fragment>;
    if (part.kind === 'code') return <code key={index}>{part.text}</code>;
    if (part.kind !== 'link') {
      const Tag = part.kind;
      return <Tag key={index}><Parts parts={part.parts} /></Tag>;
    }
    return <a key={index} href={part.to} rel="noreferrer noopener" target="_blank"><Parts parts={part.parts} /></a>;
  });
}

/** `skipTitle` leaves out a first heading, where the page has it already. */
export function Markdown({ text, skipTitle = false }: { text: string; skipTitle?: boolean }) {
  const blocks = useMemo(() => readMarkdown(text), [text]);
  const shown = skipTitle && blocks[0]?.kind === 'heading' ? blocks.slice(1) : blocks;
  // The highest headings follow the title of the page, without a gap; tables are landmarks, each with a name of its own.
  const top = Math.min(...shown.map((block) => (block.kind === 'heading' ? block.level : 6)));
  const tables = shown.filter((block) => block.kind === 'table');
  return (
    <div className="prose">
      {shown.map((block, index) => {
        switch (block.kind) {
          case 'heading': {
            const Tag = block.level <= Math.max(top, 2) ? 'h2' : 'h3';
            return <Tag key={index}><Parts parts={block.parts} /></Tag>;
          }
          case 'code':
            return <div key={index} className="prose-code"><pre tabIndex={0}><code>{block.text}</code></pre><CopyButton text={block.text} label="Copy the example" /></div>;
          case 'list': {
            const Tag = block.ordered ? 'ol' : 'ul';
            return <Tag key={index}>{block.items.map((item, at) => <li key={at}><Parts parts={item} /></li>)}</Tag>;
          }
          case 'table':
            return (
              <div key={index} className="prose-table" tabIndex={0} role="region" aria-label={tables.length > 1 ? `Table ${tables.indexOf(block) + 1}` : 'Table'}><table className="table">
                <thead><tr>{block.head.map((cell, at) => <th key={at}><Parts parts={cell} /></th>)}</tr></thead>
                <tbody>{block.rows.map((row, at) => <tr key={at}>{row.map((cell, place) => <td key={place}><Parts parts={cell} /></td>)}</tr>)}</tbody>
              </table></div>
            );
          default:
            return <p key={index}><Parts parts={block.parts} /></p>;
        }
      })}
    </div>
  );
}

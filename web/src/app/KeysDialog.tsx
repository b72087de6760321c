/** All keys on one page. */
import { ModalDialog } from '../ui/ModalDialog';
import { PAGES } from './pages';

const SETS: { title: string; keys: [string[], string][] }[] = [
  {
    title: 'Everywhere',
    keys: [
      [['Ctrl', 'K'], 'palette: objects, pages, commands'],
      [['/'], 'filter of the page'],
      [['?'], 'this list'],
      [['Esc'], 'close what is on top'],
    ],
  },
  {
    title: 'Lists',
    keys: [
      [['j'], 'next row'], [['k'], 'row before'], [['Enter'], 'open'], [['Space'], 'peek'],
      [['x'], 'select'], [['e'], 'edit'], [['n'], 'new'],
    ],
  },
  {
    title: 'Object',
    keys: [[['Ctrl', 'S'], 'review and save'], [['Ctrl', 'Enter'], 'confirm'], [['Alt', '1…5'], 'tabs'], [['F8'], 'next fault']],
  },
  {
    title: 'Overview and Traffic',
    keys: [
      [['1'], '15 minutes'], [['2'], 'one hour'], [['p'], 'pause'], [['←', '→'], 'cursor of a chart'],
      [['f'], 'filter by the focused cell'], [['e'], 'explain the request'],
    ],
  },
];

export default function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <ModalDialog label="Keys" title="Keys" width={760} onClose={onClose}>
      <div className="keys">
        <section>
          <h3>Go to</h3>
          <dl>
            {PAGES.filter((page) => page.letter).map((page) => (
              <Row key={page.path} names={['g', page.letter!]} text={page.label} />
            ))}
          </dl>
        </section>
        {SETS.map((set) => (
          <section key={set.title}>
            <h3>{set.title}</h3>
            <dl>{set.keys.map(([names, text]) => <Row key={text} names={names} text={text} />)}</dl>
          </section>
        ))}
      </div>
      <p className="keys-foot quiet">Single-letter keys can be switched off in the menu of the role.</p>
    </ModalDialog>
  );
}

function Row({ names, text }: { names: string[]; text: string }) {
  return (
    <>
      <dt>{names.map((name) => <kbd className="kbd" key={name}>{name}</kbd>)}</dt>
      <dd>{text}</dd>
    </>
  );
}

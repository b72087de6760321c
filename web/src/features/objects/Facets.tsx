/** Chips that narrow a list: the states with their counts, then labels, services, age and traffic. */
import { Menu } from '@mantine/core';
import { IconChevronDown } from '@tabler/icons-react';
import type { ObjectList } from '../../api/types';
import { Chip } from '../../ui/Button';
import { Mark } from '../../ui/Mark';
import { count } from '../../ui/format';
import { fieldOf, withField } from './listState';
import type { Kind } from './kinds/types';

const STATES: [string, string][] = [['in_force', 'In force'], ['last_good', 'Last good'], ['out', 'Out'], ['off', 'Off']];
const AGES: [string, string][] = [['<1h', 'in the last hour'], ['<1d', 'today'], ['<7d', 'in the last 7 days'], ['<30d', 'in the last 30 days']];

interface Props {
  kind: Kind;
  q: string;
  matched: number;
  facets: ObjectList['facets'];
  onChange: (q: string) => void;
}

export function Facets({ kind, q, matched, facets, onChange }: Props) {
  const state = fieldOf(q, 'state');
  const set = (field: string, value: string | null) => onChange(withField(q, field, value));
  const states = facets.state ?? {};
  return (
    <div className="facets" role="group" aria-label="Narrow the list">
      <Chip pressed={state === null} count={state === null ? count(matched) : undefined} onClick={() => set('state', null)}>All</Chip>
      {STATES.filter(([name]) => (states[name] ?? 0) > 0 || name === state || name === 'in_force').map(([name, label]) => (
        <Chip key={name} pressed={state === name} mark={<Mark state={name} label="" />} count={count(states[name] ?? 0)} onClick={() => set('state', state === name ? null : name)}>{label}</Chip>
      ))}
      <span className="facet-line" aria-hidden />
      {kind.facets.filter((field) => Object.keys(facets[field] ?? {}).length > 0 || fieldOf(q, field) !== null).map((field) => (
        <Choice key={field} label={field === 'label' ? 'Label' : field === 'service' ? 'Service' : field} value={fieldOf(q, field)} onChange={(value) => set(field, value)}
          options={Object.entries(facets[field] ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 50).map(([value, number]) => ({ value, label: value, note: count(number) }))} />
      ))}
      <Choice label="Changed" value={fieldOf(q, 'changed')} onChange={(value) => set('changed', value)} options={AGES.map(([value, label]) => ({ value, label }))} />
      {kind.fields.includes('rps') ? <Chip pressed={fieldOf(q, 'rps') === '>0'} onClick={() => set('rps', fieldOf(q, 'rps') === '>0' ? null : '>0')}>Has traffic</Chip> : null}
    </div>
  );
}

function Choice({ label, value, options, onChange }: { label: string; value: string | null; options: { value: string; label: string; note?: string }[]; onChange: (value: string | null) => void }) {
  return (
    <Menu position="bottom-start" transitionProps={{ duration: 0 }} width={240}>
      <Menu.Target>
        <button type="button" className="chip" aria-pressed={value !== null}><span>{value === null ? label : `${label}: ${value}`}</span><IconChevronDown size={14} stroke={1.75} aria-hidden /></button>
      </Menu.Target>
      <Menu.Dropdown mah={360} style={{ overflowY: 'auto' }}>
        {value !== null ? <Menu.Item onClick={() => onChange(null)}>Any</Menu.Item> : null}
        {options.map((option) => <Menu.Item key={option.value} onClick={() => onChange(option.value)} rightSection={option.note ? <span className="quiet">{option.note}</span> : undefined}>{option.label}</Menu.Item>)}
      </Menu.Dropdown>
    </Menu>
  );
}

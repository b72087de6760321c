/** Expressions over variables: rows of variable, operator and value. What is no such row is edited as JSON. */
import { SmallButton, SmallIcon } from '../Small';
import type { FieldProps } from '@rjsf/utils';
import { NativeSelect, TextInput } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { isNumber, readExact } from '../../api/exact';
import type { Json } from '../json';
import { JsonInput } from './JsonField';
import { useField } from './props';
import { Plain, readScalar, scalarText } from './scalars';

const OPERATORS = ['==', '~=', '>', '>=', '<', '<=', '~~', '~*', 'in', 'has', 'ipmatch'];
const WORDS: Record<string, string> = { '==': 'is', '~=': 'is not', '~~': 'matches', '~*': 'matches, any case', in: 'is one of', has: 'holds', ipmatch: 'is in network' };

/** One condition: a variable, an operator, and a value or several. */
export interface Condition {
  variable: string;
  not: boolean;
  operator: string;
  value: Json;
}

/** The condition of a row, or none if the row is a group or of another form. */
export function conditionOf(row: Json): Condition | null {
  if (!Array.isArray(row) || typeof row[0] !== 'string') return null;
  const not = row.length === 4 && row[1] === '!';
  const [operator, value] = not ? [row[2], row[3]] : [row[1], row[2]];
  if (row.length !== (not ? 4 : 3) || typeof operator !== 'string' || !OPERATORS.includes(operator) || value === undefined) return null;
  return { variable: row[0], not, operator, value };
}

/** The row of a condition. */
export function rowOf({ variable, not, operator, value }: Condition): Json {
  return not ? [variable, '!', operator, value] : [variable, operator, value];
}

export function ExpressionField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id, label, pointer } = useField(props);
  if (readOnly) return <Plain value={value} id={id} />;
  const list = Array.isArray(value) ? value : [];
  const word = typeof list[0] === 'string' && /^!?(AND|OR)$/.test(list[0]) ? list[0] : null;
  const rows = word ? list.slice(1) : list;
  const flat = options.nested !== true && (value === undefined || Array.isArray(value)) && rows.every((row) => conditionOf(row) !== null);
  if (!flat) return <JsonInput aria={aria} value={value} emit={emit} pointer={pointer} rows={3} />;
  const write = (next: Json[], combined = word) => {
    if (next.length === 0) emit(options.needed === true ? [] : undefined);
    else emit(combined ? [combined, ...next] : next);
  };
  const set = (index: number, part: Partial<Condition>) => write(rows.with(index, rowOf({ ...(conditionOf(rows[index] as Json) as Condition), ...part })));
  return (
    <div className="w-rows" role="group" aria-labelledby={`${id}-label`}>
      {rows.length > 1 ? (
        <NativeSelect className="w-narrow" aria-label={`${label}: how conditions combine`} value={word ?? ''} data={[{ value: '', label: 'all of these' }, { value: 'OR', label: 'any of these' }, ...(word && word !== 'OR' ? [word] : [])]} onChange={(event) => write(rows, event.currentTarget.value || null)} />
      ) : null}
      {rows.map((row, index) => {
        const condition = conditionOf(row) as Condition;
        const text = scalarText(condition.value, Number.POSITIVE_INFINITY);
        return (
          <div className="w-row" key={index}>
            <TextInput id={index === 0 ? aria.id : undefined} aria-label={`Variable ${index + 1}`} placeholder="arg_name, http_x_name, cookie_name" value={condition.variable} spellCheck={false} classNames={{ input: 'w-mono' }} onChange={(event) => set(index, { variable: event.currentTarget.value })} />
            <NativeSelect className="w-operator" aria-label={`Operator ${index + 1}`} value={`${condition.not ? '!' : ''}${condition.operator}`}
              data={[...OPERATORS.map((operator) => ({ value: operator, label: WORDS[operator] ?? operator })), ...OPERATORS.map((operator) => ({ value: `!${operator}`, label: `not: ${WORDS[operator] ?? operator}` }))]}
              onChange={(event) => set(index, { not: event.currentTarget.value.startsWith('!'), operator: event.currentTarget.value.replace(/^!/, '') })} />
            <TextInput aria-label={`Value ${index + 1}`} value={text} spellCheck={false} classNames={{ input: 'w-mono' }} onChange={(event) => set(index, { value: valueOf(event.currentTarget.value, condition) })} />
            <SmallIcon label={`Remove condition ${index + 1}`} onClick={() => write(rows.toSpliced(index, 1))} icon={<IconX size={14} stroke={1.75} />} />
          </div>
        );
      })}
      <div><SmallButton icon={<IconPlus size={14} stroke={1.75} aria-hidden />} onClick={() => write([...rows, ['', '==', '']])}>Add a condition</SmallButton></div>
    </div>
  );
}

/** A typed value: a list for the operators that take one, a number where one stood, otherwise a text. */
function valueOf(text: string, before: Condition): Json {
  if ((before.operator === 'in' || before.operator === 'ipmatch') && text.trim().startsWith('[')) {
    try {
      return readExact(text) as Json;
    } catch {
      return text;
    }
  }
  if (isNumber(before.value) || ['>', '<', '>=', '<='].includes(before.operator)) return readScalar(text, ['number']) ?? '';
  return text;
}

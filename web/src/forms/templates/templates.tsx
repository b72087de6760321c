/** The templates of every form: one field, an object, a list, an item of a list. None is made for a plugin. */
import { SmallButton, SmallIcon } from '../Small';
import { createContext, useContext, useEffect, useState, type ReactNode } from 'react';
import type { ArrayFieldItemTemplateProps, ArrayFieldTemplateProps, FieldTemplateProps, ObjectFieldTemplateProps, TemplatesType } from '@rjsf/utils';
import { IconArrowDown, IconArrowUp, IconChevronRight, IconPlus, IconTrash, IconX } from '@tabler/icons-react';
import { faultsAt, useFormEnv } from '../env';
import { brief, isObject, pointerOf, type Json } from '../json';
import type { Section } from '../SchemaForm';
import { Reasons } from '../fields/Reasons';
import '../diff.css';

function pathOf(id: { path: (string | number)[] }): (string | number)[] {
  return id.path;
}

/** The hints of the schema's shape. */
interface Hints {
  needed?: boolean;
  fallback?: Json;
  sections?: Section[];
  choices?: string[][];
  [more: string]: unknown;
}

function hintsOf(uiSchema: FieldTemplateProps['uiSchema']): Hints {
  return (uiSchema?.['ui:options'] ?? {}) as Hints;
}

/** The fields of an alternative that the user has chosen: a part of the form among them is open at once. */
const Chosen = createContext<readonly string[]>([]);

export function Field(props: FieldTemplateProps) {
  const chosen = useContext(Chosen);
  const { id, label, rawDescription, children, schema, uiSchema, formData, fieldPathId, hidden } = props;
  const env = useFormEnv();
  const path = pathOf(fieldPathId);
  const pointer = env.base + pointerOf(path);
  const { here, below } = faultsAt(env, pointer);
  const hints = hintsOf(uiSchema);
  const remove = () => props.onChange(undefined, path, undefined, id);
  const isRoot = path.length === 0;
  const isItem = typeof path.at(-1) === 'number';
  if (hidden) return null;
  if (isRoot || isItem) {
    return (
      <div data-pointer={pointer} className={isItem ? 'w-item' : undefined}>
        {children}
        {isItem ? <Reasons faults={here} id={id} /> : null}
      </div>
    );
  }
  const isSet = formData !== undefined;
  const name = String(path.at(-1));
  const clear = isSet && !hints.needed && !env.readOnly ? (
    <SmallIcon className="w-unset" label={`Remove ${label}`} onClick={remove} icon={<IconX size={14} stroke={1.75} />} />
  ) : null;
  const isGroup = (schema.type === 'object' && !uiSchema?.['ui:field']) || (schema.type === 'array' && !uiSchema?.['ui:field']);
  if (isGroup) {
    const found = here.length + below.length;
    return (
      <Fold pointer={pointer} title={label} description={rawDescription} needed={hints.needed} open={found > 0 || (isSet && !isMeta(name)) || hints.needed === true || (path.length === 1 && chosen.includes(name))} faults={found} note={isSet ? summary(formData as Json) : 'not set'} extra={clear}>
        <Reasons faults={here} id={id} />
        {children}
      </Fold>
    );
  }
  // A field that is its section, such as the plugins, needs no name of its own.
  if (hints.bare === true) {
    return (
      <div className="w-field" data-pointer={pointer}>
        {children}
        <Reasons faults={here} id={id} />
      </div>
    );
  }
  return (
    <div className="w-field" data-pointer={pointer} data-bad={here.length + below.length > 0 || undefined}>
      <div className="w-label">
        <label htmlFor={id} id={`${id}-label`}>{label}{hints.needed ? <span className="w-needed"> needed</span> : null}</label>
        {clear}
      </div>
      {rawDescription ? <p className="w-help" id={`${id}-help`}>{rawDescription}</p> : null}
      {children}
      <Reasons faults={[...here, ...below.slice(0, 5)]} base={pointer} id={id} />
    </div>
  );
}

function isMeta(name: string): boolean {
  return name === '_meta';
}

function summary(value: Json): string {
  if (Array.isArray(value)) return value.length === 1 ? '1 item' : `${value.length} items`;
  if (isObject(value)) return Object.keys(value).slice(0, 4).join(', ') || 'empty';
  return brief(value, 40);
}

/** A part of a form that opens by its title. */
export function Fold({ pointer, title, description, needed, open, faults, note, extra, children }: { pointer: string; title: string; description?: string; needed?: boolean; open: boolean; faults: number; note?: string; extra?: ReactNode; children: ReactNode }) {
  const [chosen, setChosen] = useState<boolean | null>(null);
  // A fold that opened by itself stays open when its reason is gone.
  const [stays, setStays] = useState(open);
  useEffect(() => {
    if (open) setStays(true);
  }, [open]);
  const shown = chosen ?? (open || stays);
  return (
    <section className="w-fold" data-pointer={pointer} data-bad={faults > 0 || undefined}>
      <div className="w-label">
        <button type="button" className="w-fold-head" aria-expanded={shown} onClick={() => setChosen(!shown)}>
          <IconChevronRight size={14} stroke={1.75} className="w-chevron" data-open={shown || undefined} aria-hidden />
          <span className="w-fold-title">{title}</span>
          {needed ? <span className="w-needed">needed</span> : null}
          {faults > 0 ? <span className="w-fold-bad">■ {faults === 1 ? '1 fault' : `${faults} faults`}</span> : null}
          {note ? <span className="w-fold-note">{note}</span> : null}
        </button>
        {extra}
      </div>
      {shown ? (
        <div className="w-fold-body">
          {description ? <p className="w-help">{description}</p> : null}
          {children}
        </div>
      ) : null}
    </section>
  );
}

type Property = ObjectFieldTemplateProps['properties'][number];

export function ObjectTemplate(props: ObjectFieldTemplateProps) {
  const { properties, formData, uiSchema, fieldPathId, schema } = props;
  const env = useFormEnv();
  const pointer = env.base + pointerOf(pathOf(fieldPathId));
  const hints = hintsOf(uiSchema);
  const data = isObject(formData) ? formData : {};
  const [added, setAdded] = useState<ReadonlySet<string>>(new Set());
  const [picked, setPicked] = useState<number | null>(null);
  const faulty = (name: string) => env.faults.some((fault) => `${fault.pointer}/`.startsWith(`${pointer}${pointerOf([name])}/`));
  const isSet = (name: string) => Object.hasOwn(data, name) && data[name] !== undefined;
  const needed = (name: string) => hintsOf(uiSchema?.[name]).needed === true;
  const choices = hints.choices ?? [];
  const active = picked ?? Math.max(0, choices.findIndex((list) => list.some(isSet)));
  const inOther = (name: string) => choices.some((list, index) => index !== active && list.includes(name)) && !(choices[active] ?? []).includes(name);
  const inActive = (name: string) => (choices[active] ?? []).includes(name);
  const visible = (property: Property) => !property.hidden && (isSet(property.name) || needed(property.name) || added.has(property.name) || faulty(property.name) || inActive(property.name));
  const add = (name: string) => setAdded((old) => new Set([...old, name]));
  const unknown = Object.keys(data).filter((name) => !Object.hasOwn(schema.properties ?? {}, name));
  const others = hints.sections ? [] : unknown;

  const chooser = choices.length > 1 ? (
    <div className="w-choice" role="radiogroup" aria-label="One of">
      {choices.map((list, index) => (
        <button key={list.join()} type="button" role="radio" aria-checked={index === active} onClick={() => setPicked(index)} disabled={env.readOnly && !list.some(isSet)}>
          {list.join(', ')}
        </button>
      ))}
    </div>
  ) : null;

  if (hints.sections) return <Sections sections={hints.sections} properties={properties} isSet={isSet} faulty={faulty} added={added} add={add} />;
  const shown = properties.filter(visible);
  const rest = properties.filter((property) => !visible(property) && !property.hidden && !inOther(property.name) && !isKept(property.name, schema.properties));
  return (
    <>
      {chooser}
      {shown.filter((property) => property.name !== '_meta').map((property) => property.content)}
      {others.length > 0 ? <p className="w-help">Also in the source: {others.join(', ')}.</p> : null}
      {env.readOnly ? null : <More properties={rest} add={add} onAll={() => setAdded(new Set([...added, ...rest.map((property) => property.name)]))} />}
      {shown.filter((property) => property.name === '_meta').map((property) => property.content)}
      {shown.length === 0 && rest.length === 0 ? <p className="w-help">This has no fields.</p> : null}
    </>
  );
}

/** Fields that the instance writes into its objects: the identifier beside the times. */
function isKept(name: string, properties: object | undefined): boolean {
  return properties !== undefined && Object.hasOwn(properties, 'create_time') && ['id', 'create_time', 'update_time'].includes(name);
}

/** The names of fields that are not set; a click opens one. */
function More({ properties, add, onAll }: { properties: readonly Property[]; add: (name: string) => void; onAll: () => void }) {
  const [open, setOpen] = useState(false);
  if (properties.length === 0) return null;
  const few = properties.length <= 9;
  const listed = open || few ? properties : properties.slice(0, 6);
  return (
    <div className="w-more" role="group" aria-label="Fields that are not set">
      {listed.map((property) => (
        <button key={property.name} type="button" className="w-chip" onClick={() => add(property.name)}>
          <IconPlus size={12} stroke={2} aria-hidden /> {property.name}
        </button>
      ))}
      {!open && !few ? <button type="button" className="w-chip w-chip-more" onClick={() => setOpen(true)}>{properties.length - 6} more</button> : null}
      {open && !few ? <button type="button" className="w-chip w-chip-more" onClick={onAll}>Open all</button> : null}
    </div>
  );
}

interface SectionProps {
  section: Section;
  byName: ReadonlyMap<string, Property>;
  isSet: (name: string) => boolean;
  faulty: (name: string) => boolean;
  added: ReadonlySet<string>;
  add: (name: string) => void;
}

const NONE: readonly string[] = [];

function Sections({ sections, properties, ...state }: { sections: readonly Section[]; properties: readonly Property[] } & Omit<SectionProps, 'section' | 'byName'>) {
  const byName = new Map(properties.map((property) => [property.name, property]));
  const placed = new Set(sections.flatMap((section) => section.fields));
  const left = properties.filter((property) => !placed.has(property.name)).map((property) => property.name);
  const all = left.length > 0 ? [...sections, { title: 'More', fields: left }] : sections;
  return all.map((section) => <SectionView key={section.title} section={section} byName={byName} {...state} />);
}

function SectionView({ section, byName, isSet, faulty, added, add }: SectionProps) {
  const env = useFormEnv();
  const [picked, setPicked] = useState<string | null>(null);
  const choices = (section.choice ?? []).filter((one) => one.fields.some((name) => byName.has(name)));
  const choice = choices.find((one) => one.label === picked) ?? choices.find((one) => one.fields.some(isSet)) ?? choices[0];
  const own = section.fields.map((name) => byName.get(name)).filter((property): property is Property => property !== undefined);
  const inChoices = new Set(choices.flatMap((one) => one.fields));
  const isShown = ({ name }: Property) => isSet(name) || faulty(name) || choice?.fields.includes(name) || (!inChoices.has(name) && (added.has(name) || section.open?.includes(name)));
  const shown = own.filter(isShown);
  const rest = own.filter((property) => !shown.includes(property) && !inChoices.has(property.name));
  if (own.length === 0 || (env.readOnly && !own.some(({ name }) => isSet(name)))) return null;
  return (
    <section className="w-section" aria-label={section.title}>
      <h2>{section.title}</h2>
      <div className="w-section-body">
        {choices.length > 1 ? (
          <div className="w-choice" role="radiogroup" aria-label={section.title}>
            {choices.map((one) => (
              <button key={one.label} type="button" role="radio" aria-checked={one === choice} disabled={env.readOnly && one !== choice} onClick={() => setPicked(one.label)}>
                {one.label}
              </button>
            ))}
          </div>
        ) : null}
        <Chosen.Provider value={picked !== null && choice ? choice.fields : NONE}>{shown.map((property) => property.content)}</Chosen.Provider>
        {env.readOnly ? null : <More properties={rest} add={add} onAll={() => rest.forEach((property) => add(property.name))} />}
      </div>
    </section>
  );
}

export function ListTemplate(props: ArrayFieldTemplateProps) {
  const { items, canAdd, onAddClick, title } = props;
  const env = useFormEnv();
  return (
    <div className="w-list">
      {items}
      {canAdd && !env.readOnly ? (
        <SmallButton icon={<IconPlus size={14} stroke={1.75} aria-hidden />} onClick={onAddClick}>
          Add to {title}
        </SmallButton>
      ) : null}
    </div>
  );
}

export function ItemTemplate(props: ArrayFieldItemTemplateProps) {
  const { children, buttonsProps, index, totalItems } = props;
  const env = useFormEnv();
  const action = (label: string, icon: ReactNode, run: (event?: unknown) => void, disabled = false) => (
    <SmallIcon label={label} onClick={run} disabled={disabled} icon={icon} />
  );
  return (
    <div className="w-list-item">
      <div className="w-list-bar">
        <span className="w-index">{index + 1}</span>
        {env.readOnly ? null : (
          <>
            {totalItems > 1 ? action('Move up', <IconArrowUp size={14} stroke={1.75} />, buttonsProps.onMoveUpItem, !buttonsProps.hasMoveUp) : null}
            {totalItems > 1 ? action('Move down', <IconArrowDown size={14} stroke={1.75} />, buttonsProps.onMoveDownItem, !buttonsProps.hasMoveDown) : null}
            {action(`Remove item ${index + 1}`, <IconTrash size={14} stroke={1.75} />, buttonsProps.onRemoveItem)}
          </>
        )}
      </div>
      <div className="w-list-content">{children}</div>
    </div>
  );
}

const Nothing = () => null;

export const templates = {
  FieldTemplate: Field,
  ObjectFieldTemplate: ObjectTemplate,
  ArrayFieldTemplate: ListTemplate,
  ArrayFieldItemTemplate: ItemTemplate,
  DescriptionFieldTemplate: Nothing,
  TitleFieldTemplate: Nothing,
  FieldErrorTemplate: Nothing,
  FieldHelpTemplate: Nothing,
  ErrorListTemplate: Nothing,
} as unknown as Partial<TemplatesType>;

/** What forms ask of the page around them: faults, plugins, references, and whether fields may change. */
import { createContext, useContext } from 'react';
import { isWithin, type Json, type JsonObject } from './json';
import type { Fault } from './validator';

/** A plugin of `plugins?all=true`. */
export interface PluginInfo {
  schema: JsonObject;
  consumer_schema?: JsonObject;
  metadata_schema?: JsonObject;
  priority: number;
  version?: number | string;
  type?: string;
}

/** What the catalogue says about a plugin beyond its schema. */
export interface PluginFacts {
  summary: string;
  group: string;
  scopes: string[];
  phases: string[];
  cost_ns: number | null;
}

/** An object that a field may refer to. */
export interface Candidate {
  id: string;
  name: string | null;
}

export interface FormEnv {
  /** The collection of the object, such as `routes`. */
  kind: string;
  /** Faults of the whole document. */
  faults: readonly Fault[];
  /** The pointer of this form's root in the document. */
  base: string;
  readOnly: boolean;
  /** The place of this document's texts that do not parse yet (`typed.ts`). */
  draft: string;
  plugins: Readonly<Record<string, PluginInfo>>;
  facts: ReadonlyMap<string, PluginFacts>;
  /** Objects of a kind that match a text, at most 50. */
  candidates: (kind: string, text: string) => Promise<Candidate[]>;
  /** The path of an object's page, below `/ui`. */
  linkTo: (kind: string, id: string) => string;
}

const nothing: FormEnv = {
  kind: '',
  faults: [],
  base: '',
  readOnly: false,
  draft: '',
  plugins: {},
  facts: new Map(),
  candidates: () => Promise.resolve([]),
  linkTo: (kind, id) => `/${kind}/${id}`,
};

export const FormContext = createContext<FormEnv>(nothing);

export function useFormEnv(): FormEnv {
  return useContext(FormContext);
}

/** The faults at a place of the document, and those below it. */
export function faultsAt(env: FormEnv, pointer: string): { here: Fault[]; below: Fault[] } {
  const here = env.faults.filter((fault) => fault.pointer === pointer);
  const below = env.faults.filter((fault) => fault.pointer !== pointer && isWithin(fault.pointer, pointer));
  return { here, below };
}

/** The schema of a plugin where an object of a kind holds it. */
export function pluginSchema(info: PluginInfo | undefined, kind: string): JsonObject | undefined {
  const forConsumer = kind === 'consumers' || kind === 'credentials';
  return forConsumer && info?.consumer_schema ? info.consumer_schema : info?.schema;
}

export type Emit = (value: Json | undefined) => void;

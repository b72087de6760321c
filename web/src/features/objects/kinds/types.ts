/** What a file of a kind says: its columns, facets, form sections and links. No kind has a page of its own. */
import type { ReactNode } from 'react';
import type { ObjectRow } from '../../../api/types';
import type { Section } from '../../../forms/SchemaForm';

export interface Column {
  id: string;
  label: string;
  /** The field that the server sorts by; without one the column has no arrow. */
  sort?: string;
  /** A track of the grid, such as `minmax(120px, 2fr)`. */
  width: string;
  numeric?: boolean;
  cell: (row: ObjectRow) => ReactNode;
  /** Hidden until it is chosen. */
  extra?: boolean;
}

export interface Kind {
  /** The collection of the Admin API. */
  kind: string;
  /** Its name in `schema/NAME`. */
  singular: string;
  label: string;
  one: string;
  group: string;
  columns: Column[];
  /** Fields of the query grammar that make sense here. */
  fields: string[];
  placeholder: string;
  sections: Section[];
  /** Fields that the form leaves out. */
  hide: string[];
  /** Whether objects can be switched off by `status`. */
  canDisable?: boolean;
  /** Whether POST makes an id. */
  canPost?: boolean;
  /** Facets beside the states. */
  facets: string[];
  /** Further tabs of the object page. */
  tabs?: ('endpoints' | 'topology' | 'credentials' | 'certificate')[];
  /** The sentence of an empty list. */
  empty: string;
  /** A first object, for the line to copy. */
  example: { id: string; body: unknown };
  /** A new object as the form shows it. */
  fresh: Record<string, unknown>;
}

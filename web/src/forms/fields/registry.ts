/** The fields of every form, by the names that the shape of a schema uses. */
import type { RegistryFieldsType } from '@rjsf/utils';
import { ExpressionField } from './ExpressionField';
import { JsonField } from './JsonField';
import { MapField } from './MapField';
import { NodesField } from './NodesField';
import { PluginsField } from './PluginsField';
import { ReferenceField } from './ReferenceField';
import { NumberField, ScalarField, StatusField, SwitchField, TextField } from './scalars';
import { SecretField } from './SecretField';
import { TagsField } from './TagsField';
import { VariantsField } from './VariantsField';

export const fields = {
  StringField: TextField,
  NumberField,
  BooleanField: SwitchField,
  expression: ExpressionField,
  json: JsonField,
  map: MapField,
  nodes: NodesField,
  plugins: PluginsField,
  reference: ReferenceField,
  scalar: ScalarField,
  secret: SecretField,
  status: StatusField,
  tags: TagsField,
  variants: VariantsField,
} as unknown as RegistryFieldsType;

/** The page docs/reference/access-file.md, from the schema of the file. */
import { accessFileSchema } from '../src/cli/commands/access-file.ts';
import { lines, table } from './markdown.ts';

interface Fields {
  readonly properties: Readonly<Record<string, { readonly description: string }>>;
  readonly required?: readonly string[];
}

export function accessFilePage(): string {
  const file = accessFileSchema() as Fields & { readonly definitions: Readonly<Record<string, Fields>> };
  const { Application, AccessRule, Destination, DestinationRequest } = file.definitions as Record<
    'Application' | 'AccessRule' | 'Destination' | 'DestinationRequest',
    Fields
  >;
  return lines(
    '# Access file',
    'The fields of the file of [`sallyport apply`](../guides/access-as-code.md), which has examples. It is YAML or JSON. [JSON schema](access-file.schema.json). The [permissions](permissions.md) are those of the API.',
    '## File',
    fieldTable(file),
    '## Application',
    fieldTable(Application),
    '## Access rule',
    fieldTable(AccessRule),
    '## Destination',
    fieldTable(Destination),
    '## Request of a destination',
    fieldTable(DestinationRequest),
  );
}

function fieldTable({ properties, required = [] }: Fields): string {
  const rows = Object.entries(properties).map(([name, { description }]) => [
    `\`${name}\``,
    required.includes(name) ? 'yes' : '',
    description,
  ]);
  return table(['field', 'required', 'meaning'], rows);
}

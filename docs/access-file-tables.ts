/** The tables of fields and permissions in docs/guides/access-as-code.md, from the schema of the file. */
import { accessFileSchema } from '../src/cli/commands/access-file.ts';
import { builtIn, descriptionOf, hasTrait } from '../src/domain/permission.ts';
import { lines, table } from './markdown.ts';

interface Fields {
  readonly properties: Readonly<Record<string, { readonly description: string }>>;
  readonly required?: readonly string[];
}

export function accessFileTables(): string {
  const file = accessFileSchema() as Fields & { readonly definitions: Readonly<Record<string, Fields>> };
  const { Application, AccessRule, Destination, DestinationRequest } = file.definitions as Record<
    'Application' | 'AccessRule' | 'Destination' | 'DestinationRequest',
    Fields
  >;
  return lines(
    'Fields of the file:',
    fieldTable(file),
    'Fields of an application:',
    fieldTable(Application),
    'Fields of an access rule:',
    fieldTable(AccessRule),
    'Fields of a destination:',
    fieldTable(Destination),
    'Fields of a request in `requests` of a destination:',
    fieldTable(DestinationRequest),
    'Built-in permissions. You can also use your own names, such as `invoice:read`:',
    table(
      ['permission', 'allows', 'type of application'],
      builtIn.map((name) => [
        `\`${name}\``,
        descriptionOf(name),
        hasTrait(name, 'browser') ? 'any' : 'private, management',
      ]),
    ),
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

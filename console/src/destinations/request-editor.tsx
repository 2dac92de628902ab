/** Editor for one request of a destination. */
import { ActionIcon, Button, Checkbox, Select, Textarea, TextInput } from '@mantine/core';
import type { Destination } from '../../../sdk/src/sallyport.ts';
import { methods } from '../../../src/domain/destination.ts';
import { Icon } from '../frame/icons.tsx';

type Listed = Destination['requests'][number];
type Method = Listed['method'];

/** A request being edited. Lists are texts with one entry per line. */
export interface RequestDraft {
  readonly method: Method;
  readonly path: string;
  readonly name: string;
  readonly description: string;
  readonly placeholders: readonly PlaceholderDraft[];
  readonly query: string;
  readonly headers: string;
  readonly reply: string;
  /** Whether the reply has the whole body, which is the empty JSON pointer. */
  readonly wholeBody: boolean;
  readonly isStream: boolean;
  /** JSON, or empty. */
  readonly schema: string;
  /** Fields that the editor does not show. They are sent unchanged. */
  readonly others: Partial<Listed>;
}
type PlaceholderDraft = Readonly<Record<'at' | 'from' | 'prefix', string>>;

const emptyPlaceholder: PlaceholderDraft = { at: '', from: '', prefix: '' };
export const emptyRequest: RequestDraft = {
  method: 'POST',
  path: '',
  name: '',
  description: '',
  placeholders: [emptyPlaceholder],
  query: '',
  headers: '',
  reply: '',
  wholeBody: false,
  isStream: false,
  schema: '',
  others: {},
};

export function requestDraft(listed: Listed): RequestDraft {
  const {
    method,
    path,
    name = '',
    description = '',
    placeholders,
    query,
    headers,
    reply,
    schema,
    ...others
  } = listed;
  const parts = reply === 'stream' ? [] : reply;
  return {
    others,
    method,
    path,
    name,
    description,
    placeholders: placeholders.map((each) => ({ ...emptyPlaceholder, ...each })),
    query: query.join('\n'),
    headers: headers.join('\n'),
    reply: parts.filter((part) => part !== '').join('\n'),
    wholeBody: parts.includes(''),
    isStream: reply === 'stream',
    schema: schema ? JSON.stringify(schema, undefined, 2) : '',
  };
}

export function entriesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** Text that is not JSON is returned as it is, and the check of the service refuses it. */
function schemaOf(text: string): NonNullable<Listed['schema']> {
  try {
    return JSON.parse(text);
  } catch {
    return text as unknown as NonNullable<Listed['schema']>;
  }
}

export function requestOf({ method, path, placeholders, ...lists }: RequestDraft): Listed {
  const [name, description] = [lists.name.trim(), lists.description.trim()];
  return {
    method,
    path: path.trim(),
    ...(name !== '' && { name }),
    ...(description !== '' && { description }),
    placeholders: placeholders.map(({ at, from, prefix }) => ({
      at: at.trim(),
      ...(from.trim() !== '' && { from: from.trim() }),
      ...(prefix !== '' && { prefix }),
    })),
    query: entriesOf(lists.query),
    headers: entriesOf(lists.headers),
    ...(lists.schema.trim() !== '' && { schema: schemaOf(lists.schema) }),
    reply: lists.isStream ? 'stream' : [...(lists.wholeBody ? [''] : []), ...entriesOf(lists.reply)],
    ...lists.others,
  };
}

interface Props {
  readonly request: RequestDraft;
  readonly number: number;
  /** The first error of a field or of its subfields. The empty name is the request itself. */
  readonly error: (field: string) => string | undefined;
  readonly change: (request: RequestDraft) => void;
  /** Undefined for the only request. */
  readonly remove: (() => void) | undefined;
}

const texts = [
  ['name', 'Name of the request', 'create_charge'],
  ['description', 'Description', 'Charge a card.'],
] as const;

const lists = [
  ['query', 'Query parameters', 'Names that callers may send, one per line.'],
  ['headers', 'Headers of callers', 'Names that are passed on, one per line.'],
  ['reply', 'Reply', 'What callers get back, such as /id or header:request-id, one per line.'],
] as const;

export function RequestEditor({ request, number, error, change, remove }: Props) {
  return (
    <fieldset className="rule">
      <legend>Request {number}</legend>
      {remove && <RemoveButton label={`Remove request ${number}`} icon="trash" remove={remove} />}
      <div className="rule-line">
        <Select
          className="middling"
          label="Method"
          data={[...methods]}
          value={request.method}
          allowDeselect={false}
          onChange={(method) => change({ ...request, method: method as Method })}
        />
        <TextInput
          className="grow"
          label="Path"
          placeholder="/v1/charges/:id"
          spellCheck={false}
          value={request.path}
          error={error('path')}
          onChange={(event) => change({ ...request, path: event.currentTarget.value })}
        />
      </div>
      <div className="rule-line">
        {texts.map(([field, label, example]) => (
          <TextInput
            key={field}
            className="grow"
            label={label}
            placeholder={example}
            value={request[field]}
            error={error(field)}
            onChange={(event) => change({ ...request, [field]: event.currentTarget.value })}
          />
        ))}
      </div>
      <Placeholders request={request} error={error} change={change} />
      <div className="rule-line">
        {lists.map(([field, label, description]) => (
          <Textarea
            key={field}
            className="grow"
            label={label}
            description={description}
            rows={2}
            spellCheck={false}
            value={request[field]}
            error={error(field)}
            onChange={(event) => change({ ...request, [field]: event.currentTarget.value })}
          />
        ))}
      </div>
      <Checkbox
        label="Return the whole body"
        checked={request.wholeBody}
        onChange={(event) => change({ ...request, wholeBody: event.currentTarget.checked })}
      />
      <Checkbox
        label="Pass on all that arrives, as a stream"
        checked={request.isStream}
        onChange={(event) => change({ ...request, isStream: event.currentTarget.checked })}
      />
      <Textarea
        label="Schema of the body"
        description="JSON Schema that the body must meet. Empty for any body."
        rows={3}
        spellCheck={false}
        classNames={{ input: 'mono' }}
        value={request.schema}
        error={error('schema')}
        onChange={(event) => change({ ...request, schema: event.currentTarget.value })}
      />
      {error('') && <p className="error-text">{error('')}</p>}
    </fieldset>
  );
}

const columns = [
  ['at', 'Place', '/card/number'],
  ['from', 'Part of the data', '/number, or all'],
  ['prefix', 'Prefix', 'such as Bearer'],
] as const;

function Placeholders({ request, error, change }: Pick<Props, 'request' | 'error' | 'change'>) {
  const { placeholders } = request;
  const replace = (at: number, next: PlaceholderDraft | undefined) =>
    change({
      ...request,
      placeholders: placeholders.flatMap((each, index) => (index === at ? (next ?? []) : each)),
    });
  return (
    <div className="stack-tight">
      <span className="field-label">Placeholders</span>
      <p className="fine">
        Where callers put <code>{'{{ token: ID }}'}</code>: a JSON pointer, <code>form:NAME</code> or{' '}
        <code>header:NAME</code>.
      </p>
      {placeholders.map((placeholder, index) => (
        <div className="rule-line removable" key={index}>
          {columns.map(([field, label, example]) => (
            <TextInput
              key={field}
              className="grow"
              aria-label={`${label} of placeholder ${index + 1}`}
              placeholder={example}
              spellCheck={false}
              value={placeholder[field]}
              error={error(`placeholders.${index}.${field}`)}
              onChange={(event) => replace(index, { ...placeholder, [field]: event.currentTarget.value })}
            />
          ))}
          <RemoveButton label={`Remove placeholder ${index + 1}`} remove={() => replace(index, undefined)} />
        </div>
      ))}
      <div>
        <Button
          variant="subtle"
          size="compact-xs"
          onClick={() => change({ ...request, placeholders: [...placeholders, emptyPlaceholder] })}
        >
          Add placeholder
        </Button>
      </div>
    </div>
  );
}

interface RemoveProps {
  readonly label: string;
  readonly icon?: 'cross' | 'trash';
  readonly remove: () => void;
}

export function RemoveButton({ label, icon = 'cross', remove }: RemoveProps) {
  return (
    <ActionIcon className="rule-remove" variant="subtle" color="gray" aria-label={label} onClick={remove}>
      <Icon name={icon} size={14} />
    </ActionIcon>
  );
}

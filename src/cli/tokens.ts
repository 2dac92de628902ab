import type { Token, TokenCreate, TokenPatch } from '../../sdk/src/sallyport.ts';
import { expiryOption, fileOption, given, only } from './body.ts';
import { type Call, type Option, type RemoteCommand, UsageError } from './command.ts';
import { confirmed, yesOption } from './confirm.ts';
import { limitOption, printList } from './list.ts';
import { fields } from './table.ts';

const metadataOption: Option = {
  name: 'metadata',
  takes: 'NAME=VALUE',
  many: true,
  sentence: 'A name and a value, kept in the clear.',
};

/** The data itself is never an argument, since everyone on the machine can see those. */
const content: readonly Option[] = [
  { name: 'data-file', takes: 'FILE', sentence: 'The data as JSON, - for standard input.' },
  {
    name: 'text-file',
    takes: 'FILE',
    sentence: 'The data as text, - for standard input; a last line feed is left out.',
  },
  { name: 'mask', takes: 'MASK', sentence: "What others see of it, such as '{{ data | reveal_last: 4 }}'." },
  { name: 'type', takes: 'WORD', sentence: 'A word of your own for what it is.' },
  { name: 'container', takes: 'PATH', sentence: 'Where it lies, such as /customers/42/.' },
  metadataOption,
  expiryOption,
  fileOption,
];

export const tokenCommands: readonly RemoteCommand[] = [
  {
    words: ['tokens', 'list'],
    takes: [],
    options: [
      { name: 'type', takes: 'WORD', sentence: 'Only those of this type.' },
      { name: 'container', takes: 'PATH', sentence: 'Only those in this container and below.' },
      { ...metadataOption, sentence: 'Only those with this metadata.' },
      { name: 'id', takes: 'ID', many: true, sentence: 'Only those with these ids.' },
      limitOption,
    ],
    summary: 'List the Tokens that the key may read, newest first.',
    call: list,
  },
  {
    words: ['tokens', 'create'],
    takes: [],
    options: [
      { name: 'id', takes: 'ID', sentence: 'Your own id for it; otherwise one is made.' },
      ...content,
    ],
    summary: 'Keep data as a Token.',
    call: async (call) => {
      const id = call.options.value('id');
      const body = { ...(await bodyOf(call)), ...only({ id }) };
      return show(call, await call.service.tokens.create(body as unknown as TokenCreate));
    },
  },
  {
    words: ['tokens', 'get'],
    takes: ['ID'],
    summary: 'Show a Token, and of its data what the key may see.',
    call: async (call) => show(call, await call.service.tokens.get(idOf(call))),
  },
  {
    words: ['tokens', 'update'],
    takes: ['ID'],
    options: content,
    summary: 'Change what is named of a Token.',
    details: 'The file is a JSON merge patch: null removes.',
    call: async (call) => {
      const patch = await bodyOf(call);
      if (Object.keys(patch).length === 0) throw new UsageError('nothing to change was named');
      return show(call, await call.service.tokens.update(idOf(call), patch as TokenPatch));
    },
  },
  {
    words: ['tokens', 'delete'],
    takes: ['ID'],
    options: [yesOption],
    summary: 'Delete a Token, and with it the data.',
    call: remove,
  },
];

function idOf({ args }: Call): string {
  return args[0] as string;
}

function list(call: Call): Promise<number> {
  const { options, service } = call;
  const id = given(options.values('id'));
  const filter = only({
    type: options.value('type'),
    container: options.value('container'),
    metadata: metadataOf(options.values('metadata')),
    id,
  });
  return printList(call, service.tokens.all(filter as Parameters<typeof service.tokens.all>[0]), {
    head: ['ID', 'TYPE', 'CONTAINER', 'METADATA', 'CREATED', 'EXPIRES'],
    row: ({ id, type, container, metadata, created_at, expires_at }) => [
      id,
      type,
      container,
      inWords(metadata),
      created_at,
      expires_at ?? 'never',
    ],
  });
}

async function bodyOf({ options, input }: Call): Promise<Record<string, unknown>> {
  const [json, text] = [options.value('data-file'), options.value('text-file')];
  if (json !== undefined && text !== undefined) {
    throw new UsageError('--data-file and --text-file cannot both be given');
  }
  const file = await input.body(options.value('file'));
  const named = only({
    mask: options.value('mask'),
    type: options.value('type'),
    container: options.value('container'),
    metadata: metadataOf(options.values('metadata')),
    expires_at: options.value('expires-at'),
  });
  const data =
    json !== undefined
      ? await input.json(json, '--data-file')
      : text !== undefined
        ? (await input.text(text, '--text-file')).replace(/\r?\n$/, '')
        : undefined;
  return { ...file, ...named, ...only({ data }) };
}

function metadataOf(pairs: readonly string[]): Record<string, string> | undefined {
  if (pairs.length === 0) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new UsageError(`--metadata must be NAME=VALUE, not "${pair}"`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

async function remove(call: Call): Promise<number> {
  const id = idOf(call);
  if (!(await confirmed(call, `Delete the Token ${id} with its data?`))) return 1;
  await call.service.tokens.delete(id);
  call.print(call.json ? JSON.stringify({ deleted: id }) : `deleted ${id}`);
  return 0;
}

function show({ json, print }: Call, token: Token): number {
  if (json) {
    print(JSON.stringify(token));
    return 0;
  }
  const { id, type, container, data, mask, metadata } = token;
  print(
    fields([
      ['id', id],
      ['type', type],
      ['container', container],
      ['data', JSON.stringify(data)],
      ['mask', JSON.stringify(mask)],
      ['metadata', inWords(metadata)],
      ['created', token.created_at],
      ['modified', token.modified_at],
      ['expires', token.expires_at ?? 'never'],
    ]),
  );
  return 0;
}

function inWords(metadata: Record<string, string> = {}): string {
  return Object.entries(metadata)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
}

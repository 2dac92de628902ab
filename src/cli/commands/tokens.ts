import type { Token, TokenCreate, TokenPatch, TokenReplace } from '../../../sdk/src/sallyport.ts';
import { type Call, type Option, option, type RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import {
  confirm,
  confirmByName,
  expiryOption,
  fileOption,
  formatPairs,
  only,
  pairsOf,
  wholeNumberOf,
  yesOption,
} from '../terminal/options.ts';
import { fields, limitOption, printList, showProgress } from '../terminal/print.ts';
import { stoppable } from '../terminal/signals.ts';
import { importCommand } from './import-tokens.ts';

const metadataOption = option(
  'metadata NAME=VALUE...',
  'Metadata entry; repeatable. Metadata is not encrypted.',
);

/** Data is never an argument, because every user of the machine can read arguments. */
const bodyOptions: readonly Option[] = [
  option('data-file FILE', 'Data as JSON, or - for standard input.'),
  option('text-file FILE', 'Data as text, or - for standard input. A final line feed is removed.'),
  option('mask MASK', "Mask, such as '{{ data | reveal_last: 4 }}'."),
  option('type WORD', 'Token type, a word of your choice.'),
  option('container PATH', 'Container, such as /customers/42/.'),
  metadataOption,
  expiryOption,
  fileOption,
];

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'tokens list',
    options: [
      option('type WORD', 'Filter by type.'),
      option('container PATH', 'Filter by container; includes containers below it.'),
      { ...metadataOption, description: 'Filter by metadata; repeatable.' },
      option('id ID...', 'Filter by id; repeatable.'),
      option('expires-before TIME', 'Only tokens that expire before this time.'),
      option('created-by ID', 'Only tokens that the application with this id created.'),
      limitOption,
    ],
    summary: 'List the tokens that your key can read, newest first.',
    examples: ['sallyport tokens list --container /customers/42/'],
    call: list,
  },
  {
    usage: 'tokens search <NAME>',
    options: [
      option('type WORD', 'Filter by type.'),
      option('container PATH', 'Filter by container; includes containers below it.'),
      limitOption,
    ],
    summary: 'List the tokens with a value that your key can search and read, newest first.',
    details: 'NAME is a name in `search` of the tokens. The value is read from standard input.',
    examples: ['pass show card-number | sallyport tokens search pan'],
    call: search,
  },
  {
    usage: 'tokens create',
    options: [
      option('id ID', 'Token id; generated if left out.'),
      option(
        'max-uses NUMBER',
        'How often it can be used at destinations, 1 to 100. Its data is then never revealed.',
      ),
      ...bodyOptions,
    ],
    summary: 'Create a token.',
    examples: [
      'sallyport tokens create --container /customers/42/ --data-file card.json',
      'pass show card | sallyport tokens create --text-file -',
      'sallyport tokens create --container /customers/42/ --text-file code --max-uses 1',
    ],
    call: async (call) => {
      const fromOptions = only({ id: call.options.value('id'), max_uses: wholeNumberOf(call, 'max-uses') });
      const body = { ...(await bodyOf(call)), ...fromOptions };
      if (!('data' in body))
        throw new UsageError('no data was given', 'pass --text-file, --data-file or --file');
      return show(call, await call.service.tokens.create(body as unknown as TokenCreate));
    },
  },
  {
    usage: 'tokens get <ID>',
    summary: 'Show a token, with its data as your key may see it.',
    options: [
      option('purpose PURPOSE', 'Why you read it, for the rules and the audit log.'),
      option('transform TRANSFORM', 'Show less of the data than your key may see.', ['mask', 'redact']),
    ],
    examples: ['sallyport tokens get card-42', 'sallyport tokens get card-42 --purpose "refund 4711"'],
    call: async (call) => {
      const { value } = call.options;
      const transform = value('transform') as 'mask' | 'redact' | undefined;
      const given = only({ purpose: value('purpose'), transform });
      return show(call, await call.service.tokens.get(call.args[0] as string, given));
    },
  },
  {
    usage: 'tokens update <ID>',
    options: bodyOptions,
    summary: 'Update a token.',
    details: 'Fields that you leave out are unchanged. --file is a JSON merge patch: null removes a field.',
    examples: ['sallyport tokens update card-42 --container /archive/'],
    call: async (call) => {
      const patch = await bodyOf(call);
      if (Object.keys(patch).length === 0)
        throw new UsageError('nothing to update', 'pass an option such as --container, or --file');
      return show(call, await call.service.tokens.update(call.args[0] as string, patch as TokenPatch));
    },
  },
  {
    usage: 'tokens replace <ID>',
    options: bodyOptions.filter(({ name }) => name !== 'type' && name !== 'container'),
    summary: 'Replace the data of a token.',
    details:
      'Also replaces mask, search templates, metadata and expiry: those that you leave out are removed.',
    examples: ['sallyport tokens replace card-42 --data-file card.json'],
    call: async (call) => {
      const body = await bodyOf(call);
      if (!('data' in body))
        throw new UsageError('no data was given', 'pass --text-file, --data-file or --file');
      const id = call.args[0] as string;
      return show(call, await call.service.tokens.replace(id, body as unknown as TokenReplace));
    },
  },
  importCommand,
  {
    usage: 'tokens delete [ID]',
    options: [option('container PATH', 'Delete the tokens in this container and below it.'), yesOption],
    summary: 'Delete a token and its data, or the tokens below a container.',
    details:
      'With --container, deletes the tokens that your key may delete. If it is interrupted, run it again to delete the rest.',
    examples: ['sallyport tokens delete card-42', 'sallyport tokens delete --container /customers/42/'],
    call: remove,
  },
];

function list(call: Call): Promise<number> {
  const { options, service } = call;
  const filter = only({
    type: options.value('type'),
    container: options.value('container'),
    metadata: pairsOf(call, metadataOption),
    id: options.values('id'),
    expires_before: options.value('expires-before'),
    created_by: options.value('created-by'),
  });
  return printTokens(call, service.tokens.all(filter as Parameters<typeof service.tokens.all>[0]));
}

/** The value is never an argument, because every user of the machine can read arguments. */
async function search(call: Call): Promise<number> {
  const { args, options, input, service } = call;
  const equals = { [args[0] as string]: await input.piped('value', 'the value') };
  const filter = only({ type: options.value('type'), container: options.value('container') });
  return printTokens(call, service.tokens.searchAll({ equals, ...filter }));
}

function printTokens(call: Call, tokens: AsyncIterable<Token>): Promise<number> {
  return printList(call, tokens, {
    noun: 'tokens',
    head: ['ID', 'TYPE', 'CONTAINER', 'METADATA', 'USES', 'CREATED', 'EXPIRES'],
    row: (token) => [
      token.id,
      token.type,
      token.container,
      formatPairs(token.metadata),
      usesOf(token) ?? 'unlimited',
      token.created_at,
      token.expires_at ?? 'never',
    ],
  });
}

/** Undefined if its uses are not limited. */
function usesOf({ max_uses, uses = 0 }: Token): string | undefined {
  return max_uses === undefined ? undefined : `${uses} of ${max_uses}`;
}

async function bodyOf({ options, input }: Call): Promise<Record<string, unknown>> {
  const [json, text] = [options.value('data-file'), options.value('text-file')];
  if (json !== undefined && text !== undefined)
    throw new UsageError('--data-file and --text-file cannot both be given');
  const file = await input.body(options.value('file'));
  const fromOptions = only({
    mask: options.value('mask'),
    type: options.value('type'),
    container: options.value('container'),
    metadata: pairsOf({ options }, metadataOption),
    expires_at: options.value('expires-at'),
  });
  const data =
    json !== undefined
      ? await input.json(json, '--data-file')
      : text !== undefined
        ? (await input.text(text, '--text-file')).replace(/\r?\n$/, '')
        : undefined;
  return { ...file, ...fromOptions, ...only({ data }) };
}

async function remove(call: Call): Promise<number> {
  const [id] = call.args;
  const container = call.options.value('container');
  if (container !== undefined && id === undefined) return removeBelow(call, container);
  if (id === undefined || container !== undefined) throw new UsageError('pass either ID or --container');
  await confirm(call, `Delete token ${id} and its data?`);
  await call.service.tokens.delete(id);
  return call.printResult({ deleted: id }, `deleted ${id}`);
}

async function removeBelow(call: Call, container: string): Promise<number> {
  const { service, terminal } = call;
  const warning = `Delete all tokens in ${container} and below that your key may delete, with their data?`;
  await confirmByName(call, warning, container);
  const progress = showProgress(terminal, { lines: true });
  let deleted = 0;
  try {
    const interrupted = await stoppable(
      async (stop) => {
        const onProgress = (count: number) => {
          deleted = count;
          progress.update(`${deleted} tokens deleted`);
          stop.throwIfAborted();
        };
        await service.tokens.deleteMany({ container }, { onProgress });
      },
      () => terminal.writeError('sallyport: warning: interrupted; waiting for the request in progress\n'),
    );
    progress.clear();
    const result = { container, deleted, interrupted: interrupted !== undefined };
    return call.printResult(result, `deleted ${deleted} tokens`, interrupted?.exitCode);
  } catch (error) {
    progress.clear();
    if (deleted > 0)
      terminal.writeError(`sallyport: warning: ${deleted} tokens were deleted before the error\n`);
    throw error;
  }
}

function show({ printResult }: Call, token: Token): number {
  const { id, type, container, data, mask, metadata } = token;
  return printResult(
    token,
    fields([
      ['id', id],
      ['type', type],
      ['container', container],
      ['data', JSON.stringify(data)],
      ['mask', JSON.stringify(mask)],
      ['metadata', formatPairs(metadata)],
      ['uses', usesOf(token)],
      ['created', token.created_at],
      ['modified', token.modified_at],
      ['expires', token.expires_at ?? 'never'],
    ]),
  );
}

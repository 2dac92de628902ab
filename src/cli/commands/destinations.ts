import {
  type Destination,
  type DestinationCreate,
  type DestinationUpdate,
  etagOf,
} from '../../../sdk/src/sallyport.ts';
import { describeRequest } from '../../domain/describe-destination.ts';
import { parseKey } from '../../domain/key.ts';
import { type Call, type Option, option, type RemoteCommand } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { confirm, fileOption, only, pairsOf, yesOption } from '../terminal/options.ts';
import { fields, limitOption, printList } from '../terminal/print.ts';
import { idShape, ifMatchOf, unquoted } from './apps.ts';
import { onlyOption, presetFields, presetNames } from './destination-presets.ts';

/** Values are secret, so arguments have the files. */
const headerOption = option(
  'header-file NAME=FILE...',
  'Header that is added to every request, with its value in a file, or - for standard input; repeatable. Replaces all headers.',
);

const fieldOptions: readonly Option[] = [
  headerOption,
  option('client-certificate FILE', 'Client certificate and private key in PEM, or - for standard input.'),
  fileOption,
];

const argument = 'DESTINATION is an id or a name.';

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'destinations list',
    options: [option('name TEXT', 'Filter by part of the name.'), limitOption],
    summary: 'List destinations, newest first.',
    examples: ['sallyport destinations list'],
    call: list,
  },
  {
    usage: 'destinations create',
    options: [
      option('name TEXT', 'Name in the path /proxy/NAME/…, unique in the tenant.'),
      option('origin ORIGIN', 'Such as https://api.payments.example.'),
      option('preset PRESET', 'Preset with origin and requests. Other options override it.', presetNames),
      onlyOption,
      ...fieldOptions,
    ],
    summary: 'Create a destination: an HTTPS service where tokens can be used without being seen.',
    details:
      'Pass the requests with --file or --preset; `destinations presets` shows what a preset allows. With --preset, --key-file has the key of the other service, and your own key comes from SALLYPORT_KEY or a profile. Access rules contain the id that is printed.',
    examples: [
      'sallyport destinations create --preset stripe --only charges --key-file stripe.key',
      'sallyport destinations create --file payments.json --header-file authorization=payments.secret',
      'pass show payments | sallyport destinations create --file payments.json --header-file authorization=-',
    ],
    call: async (call) =>
      show(
        call,
        await call.service.destinations.create({
          ...(await presetOf(call)),
          ...(await sentFields(call)),
        } as DestinationCreate),
      ),
  },
  {
    usage: 'destinations get <DESTINATION>',
    summary: 'Show a destination, without its secrets.',
    details: `The etag is its current version, for \`destinations update --if-match\`. ${argument}`,
    examples: ['sallyport destinations get payments'],
    call: async (call) => show(call, await current(call)),
  },
  {
    usage: 'destinations update <DESTINATION>',
    options: [
      option('name TEXT', 'New name. Rules stay valid, because they contain the id.'),
      ...fieldOptions,
      option(
        'if-match ETAG',
        'Change nothing if the destination no longer has this version, as printed by `destinations get`. Default: the `etag` in the file, if it has one.',
      ),
    ],
    summary: 'Update the name, requests, headers, certificates or timeout of a destination.',
    details: `Fields that you leave out are unchanged. The origin cannot be changed. ${argument}`,
    examples: [
      'sallyport destinations update payments --header-file authorization=new.secret',
      'sallyport destinations update payments --file requests.json',
    ],
    call: update,
  },
  {
    usage: 'destinations delete <DESTINATION>',
    options: [yesOption],
    summary: 'Delete a destination.',
    details: `Rules with its id then match nothing, also if the name is used again. ${argument}`,
    examples: ['sallyport destinations delete payments'],
    call: remove,
  },
  {
    usage: 'destinations allow <DESTINATION> <TOKEN>',
    options: [option('application ID', 'The application whose use was stopped.')],
    summary: 'Allow the use of a token again, after the destination has repeated its data.',
    details: `A reply with the data of a token stops its use by that application, because it answers guesses. ${argument}`,
    examples: ['sallyport destinations allow payments card-42 --application ID'],
    call: allow,
  },
];

function list(call: Call): Promise<number> {
  const filter = only({ name: call.options.value('name') || undefined });
  return printList(call, call.service.destinations.all(filter), {
    noun: 'destinations',
    head: ['ID', 'NAME', 'ORIGIN', 'REQUESTS'],
    row: ({ id, name, origin, requests }) => {
      return [id, name, origin, requests.map(({ method, path }) => `${method} ${path}`).join(', ')];
    },
  });
}

async function update(call: Call): Promise<number> {
  const { etag, ...sent } = await sentFields(call);
  if (Object.keys(sent).length === 0)
    throw new UsageError('nothing to update', 'pass --name, --header-file, --client-certificate or --file');
  const found = await current(call);
  const body = { ...found, ...sent } as unknown as DestinationUpdate;
  const ifMatch = ifMatchOf(call, etag, found);
  return show(call, await call.service.destinations.update(found.id, body, { ifMatch }));
}

async function allow(call: Call): Promise<number> {
  const application = call.options.value('application');
  if (!application) throw new UsageError('--application is missing');
  const [, token = ''] = call.args;
  const { id, name } = await current(call);
  await call.service.destinations.allowUse(id, token, application);
  return call.printResult({ allowed: token }, `${application} can use ${token} at ${name} again`);
}

async function remove(call: Call): Promise<number> {
  const found = await current(call);
  const { id, name, origin } = found;
  await confirm(call, `Delete the destination "${name}" (${origin})? Its rules then match nothing.`);
  await call.service.destinations.delete(id, { ifMatch: etagOf(found) });
  return call.printResult({ deleted: id }, `deleted ${id}`);
}

/** The fields of `--preset`. Its key may be missing if another option has the headers. */
async function presetOf({ options, input }: Call): Promise<Partial<DestinationCreate>> {
  const [preset, file] = [options.value('preset'), options.value('key-file')];
  const groups = options.values(onlyOption.name);
  if (preset === undefined) {
    if (groups) throw new UsageError('--only needs --preset');
    return {};
  }
  if (file === undefined && !options.values(headerOption.name))
    throw new UsageError('--preset needs the key of the service', 'pass --key-file');
  const key = file === undefined ? undefined : (await input.text(file, '--key-file')).trim();
  if (key !== undefined && parseKey(key))
    throw new UsageError(
      `--key-file ${file} has a key of Sallyport: it would be sent to ${preset}`,
      'with --preset, pass the key of the other service, and your own key in SALLYPORT_KEY',
    );
  return presetFields(preset, groups, key);
}

/** The fields of `--file`. Options override them. */
async function sentFields(call: Call): Promise<Record<string, unknown>> {
  const { options, input } = call;
  const [name, origin, pem] = ['name', 'origin', 'client-certificate'].map((each) => options.value(each));
  const client_certificate = pem === undefined ? undefined : await input.text(pem, '--client-certificate');
  const files = pairsOf(call, headerOption);
  const headers: Record<string, string> = {};
  for (const [header, path] of Object.entries(files ?? {}))
    headers[header] = (await input.text(path, `--${headerOption.name}`)).replace(/\r?\n$/, '');
  return {
    ...(await input.body(options.value('file'))),
    ...only({ name, origin, headers: files && headers, client_certificate }),
  };
}

/** The destination that the command names, with its ETag. */
async function current(call: Call): Promise<Destination> {
  return call.service.destinations.get(await destinationId(call, call.args[0] as string));
}

/** The id of the destination with this name or id. Throws if it does not exist. */
export async function destinationId({ service }: Call, wanted: string): Promise<string> {
  if (idShape.test(wanted)) return wanted;
  for await (const { id, name } of service.destinations.all({ name: wanted })) if (name === wanted) return id;
  const hint = 'run `sallyport destinations list`';
  throw new CommandError(`no destination named "${wanted}" (not_found)`, hint, 4);
}

function show({ printResult }: Call, destination: Destination): number {
  const { id, name, origin, requests, header_names, client_certificate, timeout, max_in_flight } =
    destination;
  const header = etagOf(destination);
  const etag = header && unquoted(header);
  return printResult(
    { ...destination, ...(etag && { etag }) },
    fields([
      ['id', id],
      ['name', name],
      ['origin', origin],
      ...requests.map((request, index) => [`request ${index + 1}`, describeRequest(request)] as const),
      ['headers', header_names.join(', ')],
      ['client certificate', client_certificate && 'set'],
      ['ignored headers', destination.ignored_headers.join(', ')],
      ['timeout', `${timeout} s`],
      ['max in flight', String(max_in_flight)],
      ['etag', etag],
    ]),
  );
}

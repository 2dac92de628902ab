/** Presets: destinations for the APIs of known services. The files were reviewed, and are part of the program. */
import type { DestinationCreate } from '../../../sdk/src/sallyport.ts';
import { describeRequest } from '../../domain/describe-destination.ts';
import adyen from '../../presets/adyen.json' with { type: 'json' };
import anthropic from '../../presets/anthropic.json' with { type: 'json' };
import github from '../../presets/github.json' with { type: 'json' };
import openai from '../../presets/openai.json' with { type: 'json' };
import slack from '../../presets/slack.json' with { type: 'json' };
import stripe from '../../presets/stripe.json' with { type: 'json' };
import { type Context, option, type StandaloneCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { fields, printTable, rowsOption } from '../terminal/print.ts';

type Request = DestinationCreate['requests'][number];

interface Preset {
  /** The name of the service, for people. */
  readonly service: string;
  /** From which version of its API the preset was made, and how. */
  readonly source: string;
  readonly origin: string;
  /** The header with the key of the service. */
  readonly key: { readonly header: string; readonly prefix?: string };
  readonly timeout: number;
  readonly ignored_headers: readonly string[];
  /** Fields of the requests that do not have them. */
  readonly common: Partial<Request>;
  /** By group. */
  readonly requests: Readonly<Record<string, readonly Request[]>>;
}

const presets = { adyen, anthropic, github, openai, slack, stripe } as unknown as Readonly<
  Record<string, Preset>
>;
export const presetNames = Object.keys(presets);

export const onlyOption = option(
  'only GROUP...',
  'Groups of requests of the preset, such as charges; repeatable. Default: all.',
);

/** The fields of a new destination. The secret in `headers` is the key of the service, unless it is undefined. */
export function presetFields(
  name: string,
  groups: readonly string[] | undefined,
  key: string | undefined,
): DestinationCreate {
  const { origin, timeout, ignored_headers, key: place, common, requests } = presetOf(name);
  const unknown = groups?.find((group) => !Object.hasOwn(requests, group));
  if (unknown !== undefined)
    throw new UsageError(
      `--${onlyOption.name} ${unknown}: the preset ${name} has no such group`,
      `choose from ${Object.keys(requests).join(', ')}`,
    );
  const chosen = (groups ?? Object.keys(requests)).flatMap((group) => requests[group] ?? []);
  return {
    name,
    origin,
    timeout,
    ignored_headers: [...ignored_headers],
    requests: [...new Set(chosen)].map((request) => ({ ...common, ...request })),
    ...(key !== undefined && { headers: { [place.header]: (place.prefix ?? '') + key } }),
  };
}

function presetOf(name: string): Preset {
  const preset = Object.hasOwn(presets, name) ? presets[name] : undefined;
  if (preset) return preset;
  throw new UsageError(`no preset named "${name}"`, `choose from ${presetNames.join(', ')}`);
}

export const commands: readonly StandaloneCommand[] = [
  {
    usage: 'destinations presets [PRESET]',
    options: [onlyOption, rowsOption],
    summary: 'List the presets, or show what one allows.',
    details: `PRESET is ${presetNames.join(', ')}. With --json, a preset is a body for \`destinations create --file\`.`,
    examples: ['sallyport destinations presets', 'sallyport destinations presets stripe --only charges'],
    standalone: true,
    run: async (context) => {
      const [name] = context.args;
      return name === undefined ? list(context) : show(context, name);
    },
  },
];

function list(context: Context): number {
  const rows = Object.entries(presets).map(([name, { service, requests }]) => [
    name,
    service,
    Object.keys(requests).join(', '),
  ]);
  return printTable(context, presetNames, 'presets', ['NAME', 'SERVICE', 'GROUPS'], rows);
}

function show({ options, printResult }: Context, name: string): number {
  const { service, source, key, requests } = presetOf(name);
  const allowed = presetFields(name, options.values(onlyOption.name), undefined);
  const groupOf = ({ name }: Request) =>
    Object.keys(requests).find((group) => requests[group]?.some((each) => each.name === name)) ?? '';
  const empty = { placeholders: [], query: [], headers: [], reply: [] };
  const line = ({ name: _, description, schema: __, ...rest }: Request) =>
    `${description} ${describeRequest({ ...empty, ...rest } as typeof empty & Request)}`;
  return printResult(
    allowed,
    fields([
      ['service', service],
      ['source', source],
      ['origin', allowed.origin],
      ['key', `in the header ${key.header}${key.prefix ? ` after "${key.prefix}"` : ''}`],
      ['ignored headers', allowed.ignored_headers?.join(', ')],
      ['timeout', `${allowed.timeout} s`],
      ...allowed.requests.map((each) => [groupOf(each), line(each)] as const),
    ]),
  );
}

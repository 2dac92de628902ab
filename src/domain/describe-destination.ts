/** Destinations as text, one line for each setting, for plans and reviews. Equal settings have equal lines. */
import type { DestinationRequest, Placeholder } from './destination.ts';

/** As the service stores it, or as the API returns it. */
interface DescribedRequest extends Omit<DestinationRequest, 'placeholders' | 'schema'> {
  readonly schema?: unknown;
  readonly placeholders: readonly Partial<Placeholder>[];
}

interface Described {
  readonly origin: string;
  readonly requests: readonly DescribedRequest[];
  readonly header_names: readonly string[];
  readonly client_certificate?: unknown;
  readonly ca?: string | undefined;
  readonly timeout: number;
  readonly max_in_flight: number;
  readonly ignored_headers: readonly string[];
}

/** Secrets are not compared: only the names of headers, and whether there is a client certificate. */
export function describeDestination(destination: Described): string[] {
  const { origin, requests, header_names, client_certificate, ca, timeout, max_in_flight } = destination;
  return [
    `origin ${origin}`,
    ...requests.map((request) => `request ${describeRequest(request)}`),
    ...header_names.map((name) => `header ${name}`),
    ...(client_certificate ? ['client certificate'] : []),
    ...(ca ? [`ca …${ca.replace(/-----[^-]+-----|\s/g, '').slice(-16)}`] : []),
    ...destination.ignored_headers.map((name) => `ignored header ${name}`),
    `timeout ${timeout} s`,
    `max in flight ${max_in_flight}`,
  ];
}

export function describeRequest(request: DescribedRequest): string {
  const { method, path, placeholders, query, headers, reply, body, name, description, schema } = request;
  const inserts = placeholders.map(
    ({ at, from, prefix }) => `${at}${from ? ` from ${from}` : ''}${prefix ? ` after "${prefix}"` : ''}`,
  );
  const returns =
    reply === 'stream'
      ? ['a stream of any content']
      : ['the status', ...reply.map((part) => part || 'the whole body')];
  const sends = body ? ['any content'] : [];
  const allows = path.endsWith('/*') ? ['every path below, with all that the secrets can do there'] : [];
  const lists = Object.entries({ allows, inserts, query, headers, sends, returns })
    .filter(([, list]) => list.length > 0)
    .map(([label, list]) => `${label} ${list.join(', ')}`);
  const texts = [name && `name ${name}`, description && `description ${JSON.stringify(description)}`];
  const parts = [...lists, ...texts, schema && `schema ${JSON.stringify(schema)}`];
  return `${method} ${path}: ${parts.filter((part) => part !== undefined).join('; ')}`;
}

/** Destinations as text, one line for each setting, for plans and reviews. Equal settings have equal lines. */
import type { DestinationRequest, Placeholder } from './destination.ts';

/** As the service stores it, or as the API returns it. */
interface DescribedRequest extends Omit<DestinationRequest, 'placeholders'> {
  readonly placeholders: readonly Partial<Placeholder>[];
}

interface Described {
  readonly origin: string;
  readonly requests: readonly DescribedRequest[];
  readonly header_names: readonly string[];
  readonly client_certificate?: unknown;
  readonly ca?: string | undefined;
  readonly timeout: number;
}

/** Secrets are not compared: only the names of headers, and whether there is a client certificate. */
export function describeDestination(destination: Described): string[] {
  const { origin, requests, header_names, client_certificate, ca, timeout } = destination;
  return [
    `origin ${origin}`,
    ...requests.map((request) => `request ${describeRequest(request)}`),
    ...header_names.map((name) => `header ${name}`),
    ...(client_certificate ? ['client certificate'] : []),
    ...(ca ? [`ca …${ca.replace(/-----[^-]+-----|\s/g, '').slice(-16)}`] : []),
    `timeout ${timeout} s`,
  ];
}

export function describeRequest(request: DescribedRequest): string {
  const { method, path, placeholders, query, headers, reply } = request;
  const inserts = placeholders.map(
    ({ at, from, prefix }) => `${at}${from ? ` from ${from}` : ''}${prefix ? ` after "${prefix}"` : ''}`,
  );
  const returns = ['the status', ...reply.map((part) => part || 'the whole body')];
  const parts = Object.entries({ inserts, query, headers, returns })
    .filter(([, list]) => list.length > 0)
    .map(([label, list]) => `${label} ${list.join(', ')}`);
  return `${method} ${path}: ${parts.join('; ')}`;
}

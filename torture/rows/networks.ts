/** A thief has the key of an application with `allowed_networks`, and sends it from elsewhere with forged headers. */
import { type Clients, clientsOf, forEachConcurrently, retry503 } from '../fleet-clients.ts';
import type { Random } from '../random.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const networks: Row = {
  name: 'networks',
  requirement:
    'a key with allowed_networks, with forged and contradicting X-Forwarded-For and Forwarded headers, IPv4-mapped and other forms of addresses, with and without trusted proxies: no request from outside is accepted, every request from inside is; a changed list applies to the next request on every node',
  databases: bothDatabases,
  run,
};

/** The nodes trust the torture client, and proxies inside of the allowed networks. */
const trustedProxies = '127.0.0.1,10.9.0.0/16,2001:db8:9::/48';
const allowed = ['10.0.0.0/8', '192.0.2.128/25', '2001:db8::/32'];

const insideIpv4 = ['10.0.0.1', '10.255.255.255', '10.8.9.7', '192.0.2.128', '192.0.2.255'];
const insideIpv6 = ['2001:db8::1', '2001:db8:ffff:0:0:0:0:1', '2001:db8:0:1::'];
const outsideIpv4 = ['9.255.255.255', '11.0.0.0', '192.0.2.127', '192.0.3.128', '203.0.113.9'];
/** The last ones contain an allowed IPv4 address: NAT64, 6to4, and the deprecated IPv4-compatible form. */
const outsideIpv6 = ['2001:db7:ffff::1', '2001:db9::', '::1', '64:ff9b::a00:1', '2002:a00:1::', '::a00:1'];
/** Texts that some parsers read as an allowed address. */
const malformed = [
  ...['unknown', '_hidden', '', '010.0.0.1', '0x0a.0.0.1', '167772161', '10.1', '10.0.0.1.', '10.0.0.256'],
  ...['10.0.0.1/8', '10.0.0.1 10.0.0.1', '10.0.0.1.example', '[10.0.0.1]x', '2001:db8::1::', '::ffff:10.0.0'],
];
const proxies = ['10.9.0.1', '10.9.255.1', '2001:db8:9::7'];

/** Another way to write the same address. */
function formOf(address: string, random: Random): string {
  if (!address.includes(':')) {
    const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
    const groups = `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
    const mapped = [
      `::ffff:${address}`,
      `::FFFF:${groups}`,
      `0:0:0:0:0:ffff:${groups}`,
      `[::ffff:${address}]:443`,
    ];
    return random.one([address, address, `${address}:4711`, ...mapped]);
  }
  const [head = '', tail] = address.split('::');
  const [left, right] = [head, tail ?? ''].map((part) => part.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: 8 - (left?.length ?? 0) - (right?.length ?? 0) }, () => '0');
  const groups = [...(left ?? []), ...zeros, ...(right ?? [])];
  const long = groups.map((group) => group.padStart(4, '0')).join(':');
  return random.one([address, address.toUpperCase(), long, `[${address}]`, `[${long}]:4711`]);
}

const headers = {
  'X-Forwarded-For': (hops: readonly string[]) => hops.join(', '),
  Forwarded: (hops: readonly string[]) => hops.map((hop) => `for="${hop}";proto=https`).join(', '),
};
type HeaderName = keyof typeof headers;
const headerNames = Object.keys(headers) as HeaderName[];

function lineOf(name: HeaderName, hops: readonly string[]): string {
  return `${name}: ${headers[name](hops)}`;
}

interface Attempt {
  readonly headers: readonly string[];
  readonly isInside: boolean;
}

/** Addresses that the client made up. */
function forged(random: Random): string[] {
  const some = [...insideIpv4, ...insideIpv6, ...proxies, ...malformed, ...outsideIpv4];
  return Array.from({ length: random.below(4) }, () => random.one(some));
}

/** What trusted proxies append: the address of the client, and those of the proxies behind the first one. */
function appended(address: string, random: Random): string[] {
  const between = Array.from({ length: random.below(3) }, () => formOf(random.one(proxies), random));
  return [address, ...between];
}

const attempts: Record<string, (random: Random) => Attempt> = {
  'proxies append the address': (random) => {
    const isInside = random.below(2) === 0;
    const address = random.one(isInside ? [...insideIpv4, ...insideIpv6] : [...outsideIpv4, ...outsideIpv6]);
    const hops = [...forged(random), ...appended(formOf(address, random), random)];
    return { isInside, headers: [lineOf(random.one(headerNames), hops)] };
  },
  'proxies send a second header line': (random) => {
    const isInside = random.below(2) === 0;
    const address = formOf(random.one(isInside ? insideIpv4 : outsideIpv4), random);
    const name = random.one(headerNames);
    return { isInside, headers: [lineOf(name, forged(random)), lineOf(name, appended(address, random))] };
  },
  'the client sends the other header': (random) => {
    const [written, other] = random.shuffled(headerNames) as [HeaderName, HeaderName];
    const own = [...forged(random), random.one([...insideIpv4, ...proxies, ...malformed])];
    const address = formOf(random.one(outsideIpv4), random);
    const lines = [lineOf(other, own), lineOf(written, appended(address, random))];
    return { isInside: false, headers: random.shuffled(lines) };
  },
  'a proxy names no address': (random) => {
    const hops = [...forged(random), ...appended(random.one(malformed), random)];
    return { isInside: false, headers: [lineOf(random.one(headerNames), hops)] };
  },
  'the client sends other headers': (random) => {
    const names = [
      'X-Real-IP',
      'X-Client-IP',
      'True-Client-IP',
      'CF-Connecting-IP',
      'X-Original-Forwarded-For',
    ];
    const own = names.map((name) => `${name}: ${random.one(insideIpv4)}`);
    return { isInside: false, headers: [...own, lineOf('X-Forwarded-For', [random.one(outsideIpv4)])] };
  },
};

async function run(context: Context): Promise<Outcome> {
  const { random } = context;
  const env = { SALLYPORT_TRUSTED_PROXIES: trustedProxies };
  const behind = clientsOf(context, await context.start({ nodes: context.sized(3, 1), env }));
  const direct = clientsOf(context, await context.fleet());
  const failures: string[] = [];
  let [inside, outside] = [0, 0];

  async function send(
    { call }: Clients,
    key: string,
    lines: readonly string[],
    node: number,
  ): Promise<number> {
    return (await retry503(() => call(node, 'GET', '/applications/key', { key, headers: lines }))).status;
  }

  const fields = { permissions: ['application:read'], allowed_networks: allowed };
  const [proxied, exposed] = await Promise.all(
    [behind, direct].map(async (clients) => {
      const tenant = await clients.fleet.tenant();
      return { tenant, app: await clients.application(tenant.key, fields) };
    }),
  );
  if (!proxied || !exposed) throw new Error('no application was created');

  await forEachConcurrently(context.sized(2000, 100), 8, async (index) => {
    for (const [kind, make] of Object.entries(attempts)) {
      const { headers: lines, isInside } = make(random);
      const status = await send(behind, proxied.app.key, lines, index);
      if (isInside) inside++;
      else outside++;
      if (status !== (isInside ? 200 : 403)) failures.push(`${kind}: ${status} for ${JSON.stringify(lines)}`);
      // Nodes without trusted proxies use the address of the connection.
      outside++;
      const spoofed = await send(direct, exposed.app.key, lines, index);
      if (spoofed !== 403) failures.push(`${kind}, without a proxy: ${spoofed} for ${JSON.stringify(lines)}`);
    }
  });
  const changes = context.sized(50, 3);
  await forEachConcurrently(changes, 2, async (index) => {
    const { tenant } = proxied;
    const app = await behind.application(tenant.key, fields);
    const from = [lineOf('X-Forwarded-For', ['10.0.0.1'])];
    const before = await send(behind, app.key, from, index);
    const body = { name: 'moved', permissions: ['application:read'], allowed_networks: ['10.0.0.2'] };
    await behind.must(index, 'PUT', `/applications/${app.id}`, { key: tenant.key, body });
    const after = await Promise.all(
      Array.from({ length: 12 }, (_, node) => send(behind, app.key, from, node)),
    );
    if (before !== 200 || after.some((status) => status !== 403))
      failures.push(`networks changed: ${before} before, ${after} after`);
  });
  return {
    figures: { 'requests from outside': outside, 'requests from inside': inside, 'changed lists': changes },
    failures: failures.slice(0, 10),
  };
}

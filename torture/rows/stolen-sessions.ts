/** A thief has the key of a bound session and one of its proofs, but not the private key. */
import { createHmac, createPublicKey } from 'node:crypto';
import { encode, Prover } from '../../test/support/dpop.ts';
import { type Body, type Clients, clientsOf, forEachConcurrently, retry503 } from '../fleet-clients.ts';
import type { Random } from '../random.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const stolenSessions: Row = {
  name: 'stolen-sessions',
  requirement:
    'the key of a bound session, with a stolen proof, on 3 nodes: other method, other URL, other key, old or forged nonce, replay, forged jwk, alg none, symmetric key, two proofs and changed bytes all get the 401 of an invalid key, while the owner gets 200',
  databases: bothDatabases,
  run,
};

/** The URL of the requests of the torture client. */
const origin = 'http://localhost';
const nonceLifetime = 120_000;

interface Owner {
  readonly prover: Prover;
  readonly key: string;
  readonly nonce: string;
}

/** A request of the thief. The headers are sent in addition to the key. */
interface Attempt {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly string[];
}

const requests = [
  ['GET', '/applications/key'],
  ['GET', '/tokens'],
  ['POST', '/decisions'],
  ['DELETE', '/tokens/card-1'],
  ['HEAD', '/applications/key'],
] as const;

function proofOf({ prover, key, nonce }: Owner, method: string, path: string, changes: object = {}): string {
  return prover.proof({ method, url: origin + path, key, nonce, ...changes });
}

/** Requests of the thief, by kind. `stolen` is a proof of the owner for the first of `requests`. */
const thefts: Record<string, (owner: Owner, stolen: string, random: Random) => Attempt> = {
  'no proof': (_, __, random) => at(random.one(requests)),
  'other method': (owner, _, random) =>
    at([random.one(['HEAD', 'POST']), '/tokens'], proofOf(owner, 'GET', '/tokens')),
  'other URL': (owner, _, random) => {
    const [method, path] = random.one(requests);
    const other = ['http://localhost/other', `https://localhost${path}`, `http://localhost:1${path}`];
    const url = random.one([...other, `http://shop.example${path}`]);
    return at([method, path], proofOf(owner, method, path, { url }));
  },
  'other key': (owner) => at(requests[0], proofOf({ ...owner, prover: new Prover() }, ...requests[0])),
  'forged jwk': (owner) => {
    const header = { jwk: owner.prover.jwk };
    return at(requests[0], proofOf({ ...owner, prover: new Prover() }, ...requests[0], { header }));
  },
  'jwk of the thief on the signature of the owner': (_, stolen) => {
    const [, payload, signature] = stolen.split('.');
    const head = encode({ typ: 'dpop+jwt', alg: 'ES256', jwk: new Prover().jwk });
    return at(requests[0], `${head}.${payload}.${signature}`);
  },
  'private jwk': ({ prover, ...owner }) =>
    at(
      requests[0],
      proofOf({ ...owner, prover }, ...requests[0], { header: { jwk: { ...prover.jwk, d: 'AAAA' } } }),
    ),
  'alg none': (_, stolen, random) => {
    const [head, payload, signature] = stolen.split('.');
    const none = encode({ ...decode(head as string), alg: random.one(['none', 'None', '']) });
    return at(requests[0], `${none}.${payload}.${random.one([signature, 'AA'])}`);
  },
  'symmetric key': ({ prover }, stolen) => {
    const [, payload] = stolen.split('.');
    const head = encode({ typ: 'dpop+jwt', alg: 'HS256', jwk: prover.jwk });
    const pem = createPublicKey({ key: prover.jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
    const mac = createHmac('sha256', pem).update(`${head}.${payload}`).digest('base64url');
    return at(requests[0], `${head}.${payload}.${mac}`);
  },
  'forged nonce': (owner, _, random) => {
    const bytes = Buffer.from(owner.nonce, 'base64url');
    bytes.writeUIntBE(Date.now() + random.below(1000), 0, 6);
    return at(requests[0], proofOf({ ...owner, nonce: bytes.toString('base64url') }, ...requests[0]));
  },
  'session key of another session': (owner) =>
    at(requests[0], proofOf({ ...owner, key: 'slp_ses_other' }, ...requests[0])),
  'two proofs': (owner) => {
    const proofs = [proofOf(owner, ...requests[0]), proofOf(owner, ...requests[0])];
    return { ...at(requests[0]), headers: proofs.map((proof) => `DPoP: ${proof}`) };
  },
  'changed byte': (_, stolen, random) => {
    const index = random.below(stolen.length - 1);
    const other = stolen[index] === 'A' ? 'B' : 'A';
    return at(requests[0], stolen.slice(0, index) + other + stolen.slice(index + 1));
  },
};

function at([method, path]: readonly [string, string], proof?: string): Attempt {
  return { method, path, headers: proof === undefined ? [] : [`DPoP: ${proof}`] };
}

function decode(part: string): object {
  return JSON.parse(Buffer.from(part, 'base64url').toString());
}

async function run(context: Context): Promise<Outcome> {
  const { random } = context;
  const clients = clientsOf(context, await context.fleet());
  const { fleet, call, application } = clients;
  const { key } = await fleet.tenant();
  const web = await application(key, { type: 'public', require_bound_sessions: true });
  const failures: string[] = [];
  let [attempts, owned, replays] = [0, 0, 0];
  const { text: invalid } = await call(0, 'GET', '/applications/key');

  /** The response must be that of an invalid key, with a challenge. */
  async function expectRefused(
    what: string,
    owner: Owner,
    { method, path, headers }: Attempt,
  ): Promise<void> {
    attempts++;
    const asked = { key: owner.key, headers: [...headers, 'SVC-REQUEST-ID: x'] };
    const response = await retry503(() => call(random.below(3), method, path, asked));
    const challenged = /\r\nwww-authenticate: DPoP error="(invalid_dpop_proof|use_dpop_nonce)"/i;
    const isBody = method === 'HEAD' || bodyOf(response.text) === bodyOf(invalid);
    if (response.status === 401 && challenged.test(response.head) && isBody) return;
    failures.push(`${what}: ${method} ${path} returned ${response.status} ${response.text}`);
  }

  async function expectOwned(what: string, owner: Owner): Promise<void> {
    owned++;
    const headers = [`DPoP: ${proofOf(owner, 'GET', '/applications/key')}`];
    const { status, text } = await call(random.below(3), 'GET', '/applications/key', {
      key: owner.key,
      headers,
    });
    if (status !== 200) failures.push(`${what}: the owner got ${status} ${text}`);
  }

  const first = await openOwner(clients, web, key);
  const openedAt = performance.now();
  await forEachConcurrently(context.sized(40, 1), 2, async (round) => {
    const owner = await openOwner(clients, web, key);
    for (const [kind, make] of Object.entries(thefts)) {
      const stolen = proofOf(owner, ...requests[0]);
      await expectRefused(kind, owner, make(owner, stolen, random));
    }
    await expectOwned(`round ${round}`, owner);
    // Each node accepts a proof at most once.
    const headers = [`DPoP: ${proofOf(owner, ...requests[0])}`];
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, node) => call(node, ...requests[0], { key: owner.key, headers })),
    );
    const accepted = answers.filter(({ status }) => status === 200).length;
    replays += answers.length - accepted;
    if (accepted > fleet.nodes.length) failures.push(`a proof was accepted ${accepted} times`);
  });
  if (context.size === 'full') {
    await Bun.sleep(Math.max(0, nonceLifetime + 1000 - (performance.now() - openedAt)));
    await expectRefused('old nonce', first, at(requests[0], proofOf(first, ...requests[0])));
  }
  const { status } = await call(0, 'POST', '/sessions', { key: web.key });
  if (status !== 400) failures.push(`a session without a proof got ${status}`);
  return {
    figures: { thefts: attempts, 'replays refused': replays, 'requests of the owner': owned },
    failures: failures.slice(0, 10),
  };
}

/** A bound session whose nonce every node accepts. Nodes that have just started ask for a newer one. */
async function openOwner({ call, must }: Clients, web: Body, key: string): Promise<Owner> {
  const prover = new Prover();
  const headers = [`DPoP: ${prover.proof({ method: 'POST', url: `${origin}/sessions` })}`];
  const created = await retry503(() => call(0, 'POST', '/sessions', { key: web.key, headers }));
  const { session_key, nonce: pending } = JSON.parse(created.text);
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const permissions = ['application:read', 'token:read', 'token:delete', 'decision:create'];
  await must(1, 'POST', '/sessions/authorize', { key, body: { nonce: pending, permissions, expires_at } });
  let owner = { prover, key: session_key, nonce: nonceOf(created.head) as string };
  for (let node = 0; node < 3; node++) {
    const proof = proofOf(owner, ...requests[0]);
    const answer = await call(node, ...requests[0], { key: session_key, headers: [`DPoP: ${proof}`] });
    owner = { ...owner, nonce: nonceOf(answer.head) ?? owner.nonce };
  }
  return owner;
}

function nonceOf(head: string): string | undefined {
  return /\r\ndpop-nonce: *([\w-]+)/i.exec(head)?.[1];
}

/** The body without request id and path, which differ between responses. */
function bodyOf(text: string): string {
  return text.replace(/"(request_id|instance)":"[^"]*"/g, '');
}

/** Fills the tenant of a running service with a small bookshop, through the SDK, and leaves traces of use. */
import { type ApplicationWithKey, authorizeSession, Sallyport } from '../sdk/src/sallyport.ts';
import { applications } from './applications.ts';
import { tokens } from './tokens.ts';

export interface Seeded {
  /** The key of an Application, by its name. */
  key(name: string): string;
}

export interface SeedOptions {
  readonly url: string;
  /** A management key that holds everything, as the first start writes it. */
  readonly key: string;
  /** The pages that may use the key of the shop page; none means all. */
  readonly origins?: string[];
  /** The time of the service, where that is not the time of day. */
  readonly now?: () => number;
}

export async function seed({ url, key, origins = [], now = Date.now }: SeedOptions): Promise<Seeded> {
  const admin = new Sallyport({ url, key });
  const made = new Map<string, ApplicationWithKey>();
  for (const application of applications(origins, now()))
    made.set(application.name, await admin.applications.create(application));
  for (const token of tokens) await admin.tokens.create(token);

  const application = (name: string): ApplicationWithKey => {
    const found = made.get(name);
    if (!found) throw new Error(`the demo has no Application ${name}`);
    return found;
  };
  const as = (name: string) => new Sallyport({ url, key: application(name).key });
  await use(as);
  await visit(as, now());
  await admin.applications.createKey(application('payments worker').id);
  return { key: (name) => application(name).key };
}

type As = (name: string) => Sallyport;

/** A working day: what each is there for, and two who try what is not theirs. */
async function use(as: As): Promise<void> {
  for (const id of ['card-42', 'card-44', 'card-47']) await as('payments worker').tokens.get(id);
  await as('help desk').tokens.get('card-43');
  await as('parcel labels').tokens.list({ container: '/addresses/' });
  await as('nightly report').tokens.list({ type: 'card' });
  await as('payroll').tokens.get('iban-hopper');
  await as('deploy bot').applications.list();
  await as('shop page').tokens.create({ type: 'card', container: '/incoming/', data: '4000056655665556' });
  await refused(as('help desk').tokens.get('iban-turing'));
  await refused(as('parcel labels').tokens.get('card-42'));
}

async function refused(attempt: Promise<unknown>): Promise<void> {
  const wentThrough = await attempt.then(
    () => true,
    () => false,
  );
  if (wentThrough) throw new Error('the demo was let in where it should have been refused');
}

/** Customers on the page: most are let in to their own data, some are still waiting. */
async function visit(as: As, now: number): Promise<void> {
  for (const customer of ['42', '43', '44', '45', '46']) {
    const { nonce } = await as('mobile app').sessions.create();
    const own = {
      attribute: 'container',
      operator: 'starts_with',
      value: `/customers/${customer}/`,
    } as const;
    await authorizeSession(as('shop backend'), nonce, {
      rules: [{ priority: 1, transform: 'mask', permissions: ['token:read'], conditions: [own] }],
      expires_at: new Date(now + 3_600_000).toISOString(),
    });
  }
  for (let waiting = 0; waiting < 2; waiting++) await as('shop page').sessions.create();
}

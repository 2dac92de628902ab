/** Fills a tenant with the data of a small bookshop through the SDK, and simulates some use. */
import {
  type ApplicationWithKey,
  authorizeSession,
  type DestinationCreate,
  Sallyport,
} from '../sdk/src/sallyport.ts';
import { applications, chargingApplication } from './applications.ts';
import { tokens } from './tokens.ts';

export interface Seeded {
  /** Returns the key of an application by its name. */
  key(name: string): string;
}

export interface SeedOptions {
  readonly url: string;
  /** A management key with all permissions. */
  readonly key: string;
  /** Allowed origins of the shop page's key. Empty allows all. */
  readonly origins?: string[];
  /** The payment provider, at which the application `checkout` can use cards. */
  readonly payments?: DestinationCreate | undefined;
  /** The service's clock, if it is not the system clock. */
  readonly now?: () => number;
}

export async function seed({
  url,
  key,
  origins = [],
  payments,
  now = Date.now,
}: SeedOptions): Promise<Seeded> {
  const admin = new Sallyport({ url, key });
  const created = new Map<string, ApplicationWithKey>();
  for (const application of applications(origins, now()))
    created.set(application.name, await admin.applications.create(application));
  if (payments) {
    const { id } = await admin.destinations.create(payments);
    const checkout = chargingApplication(id);
    created.set(checkout.name, await admin.applications.create(checkout));
  }
  for (const token of tokens) await admin.tokens.create(token);

  const application = (name: string): ApplicationWithKey => {
    const found = created.get(name);
    if (!found) throw new Error(`the demo has no application ${name}`);
    return found;
  };
  const as = (name: string) => new Sallyport({ url, key: application(name).key });
  await simulateUse(as);
  await createSessions(as, now());
  await admin.applications.createKey(application('payments worker').id);
  return { key: (name) => application(name).key };
}

type As = (name: string) => Sallyport;

/** Typical requests, and two that must be denied. */
async function simulateUse(as: As): Promise<void> {
  for (const id of ['card-42', 'card-44', 'card-47']) await as('payments worker').tokens.get(id);
  await as('help desk').tokens.get('card-43');
  await as('parcel labels').tokens.list({ container: '/addresses/' });
  await as('nightly report').tokens.list({ type: 'card' });
  await as('payroll').tokens.get('iban-hopper');
  await as('deploy bot').applications.list();
  await as('shop page').tokens.create({ type: 'card', container: '/incoming/', data: '4000056655665556' });
  await expectDenied(as('help desk').tokens.get('iban-turing'));
  await expectDenied(as('parcel labels').tokens.get('card-42'));
}

async function expectDenied(attempt: Promise<unknown>): Promise<void> {
  const allowed = await attempt.then(
    () => true,
    () => false,
  );
  if (allowed) throw new Error('a request of the demo was allowed that should have been denied');
}

/** Creates five active sessions and two pending ones. */
async function createSessions(as: As, now: number): Promise<void> {
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
  for (let pending = 0; pending < 2; pending++) await as('shop page').sessions.create();
}

/** A caller that may use card numbers without seeing them, and learns them from a destination that repeats its guesses. */
import { json, openReceiver, tokenUseRule } from '../../test/support/destination-receiver.ts';
import { clientsOf } from '../fleet-clients.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

const uses = 17;
/** The numbers that a masked card can have: six unknown digits, one of which follows from the others. */
const candidates = 100_000;
/** As many guesses as a request with a placeholder can have. */
const perRequest = 3700;

/** An echo tells which request had the number. */
const mostBits = Math.log2(candidates / perRequest);

export const guesses: Row = {
  name: 'guesses',
  requirement: `card numbers of which 10 digits are known are guessed with a field that the destination repeats, ${uses} uses each, one by one and together: at most ${mostBits.toFixed(1)} bits are learned of a number, and no more after the first echo`,
  databases: bothDatabases,
  run,
};

function numberOf(candidate: number): string {
  const body = `411111${String(candidate).padStart(5, '0')}1234`;
  for (let digit = 0; digit < 10; digit++) {
    const number = `${body.slice(0, 11)}${digit}${body.slice(11)}`;
    if (passesLuhn(number)) return number;
  }
  throw new Error('no digit fits');
}

function passesLuhn(number: string): boolean {
  const sum = [...number].reverse().reduce((total, each, at) => {
    const digit = Number(each) * (at % 2 === 0 ? 1 : 2);
    return total + (digit > 9 ? digit - 9 : digit);
  }, 0);
  return sum % 10 === 0;
}

interface Attacked {
  store(token: string, number: string): Promise<void>;
  /** Whether the destination repeated one of the numbers, or undefined if the reply does not tell. */
  guess(token: string, group: readonly number[]): Promise<boolean | undefined>;
}

async function open(context: Context): Promise<Attacked> {
  const env = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_USES_PER_TOKEN: '0' };
  const { fleet, call, must, application } = clientsOf(context, await context.start({ nodes: 1, env }));
  const receiver = await openReceiver();
  context.defer(() => receiver.close());
  receiver.answer((socket, request) => {
    const { guesses } = JSON.parse(request.slice(request.indexOf('\r\n\r\n'))) as { guesses: string };
    socket.write(json({ guesses }));
  });
  const { key } = await fleet.tenant();
  const requests = [
    { method: 'POST', path: '/charge', placeholders: [{ at: '/card' }], reply: ['/guesses'] },
  ];
  const body = { name: 'payments', origin: receiver.addressOrigin, ca: receiver.ca, requests };
  const { id } = await must(0, 'POST', '/destinations', { key, body });
  const user = await application(key, { rules: [tokenUseRule('/', [id as string])] });
  return {
    store: async (token, number) => {
      await must(0, 'POST', '/tokens', { key, body: { id: token, data: number } });
    },
    guess: async (token, group) => {
      const sent = { card: `{{ token: ${token} }}`, guesses: group.map(numberOf).join(',') };
      const reply = await call(0, 'POST', '/proxy/payments/charge', { key: user.key, body: sent });
      if (reply.status === 200) return false;
      return reply.text.includes('destination_echoed_data') ? true : undefined;
    },
  };
}

/** The bits that the answers tell, and whether a use was answered after an echo. */
function lesson(answers: readonly (boolean | undefined)[]): { bits: number; wentOn: boolean } {
  const echoed = answers.indexOf(true);
  const isPossible = (answer: boolean | undefined) => (echoed < 0 ? answer !== false : answer === true);
  const others = echoed < 0 ? candidates - uses * perRequest : 0;
  const left = answers.filter(isPossible).length * perRequest + others;
  const wentOn = echoed >= 0 && answers.slice(echoed + 1).some((answer) => answer !== undefined);
  return { bits: Math.log2(candidates / left), wentOn };
}

async function run(context: Context): Promise<Outcome> {
  const { random } = context;
  const { store, guess } = await open(context);
  const failures: string[] = [];
  const [alone, together]: [number[], number[]] = [[], []];
  const tokens = context.sized(100, 6);
  for (let at = 0; at < tokens; at++) {
    const token = `card-${at}`;
    await store(token, numberOf(random.below(candidates)));
    const first = random.below(candidates);
    const groups = Array.from({ length: uses }, (_, use) =>
      Array.from({ length: perRequest }, (_, n) => (first + use * perRequest + n) % candidates),
    );
    if (at % 2 === 0) {
      const answers: (boolean | undefined)[] = [];
      for (const group of groups) answers.push(await guess(token, group));
      const { bits, wentOn } = lesson(answers);
      alone.push(bits);
      if (wentOn) failures.push(`the use of ${token} went on after an echo`);
    } else together.push(lesson(await Promise.all(groups.map((group) => guess(token, group)))).bits);
  }
  const mean = (bits: readonly number[]) => bits.reduce((sum, each) => sum + each, 0) / bits.length;
  for (const bits of [alone, together])
    if (Math.max(...bits) > mostBits) failures.push(`${Math.max(...bits).toFixed(1)} bits were learned`);
  return {
    figures: {
      numbers: tokens,
      'uses of each': uses,
      'bits learned one by one': mean(alone).toFixed(1),
      'bits learned together': mean(together).toFixed(1),
    },
    failures: failures.slice(0, 10),
  };
}

/** The bookshop's tokens. The card numbers are published test numbers. */
import type { TokenCreate } from '../sdk/src/sallyport.ts';

const customers = [
  { id: '42', given: 'Ada', family: 'Lovelace', street: '12 St James’s Square', city: 'London' },
  { id: '43', given: 'Charles', family: 'Babbage', street: '1 Dorset Street', city: 'London' },
  { id: '44', given: 'Emmy', family: 'Noether', street: 'Hauptstraße 23', city: 'Erlangen' },
  { id: '45', given: 'Sofja', family: 'Kowalewskaja', street: 'Sturegatan 56', city: 'Stockholm' },
  { id: '46', given: 'Henri', family: 'Poincaré', street: '63 rue Claude-Bernard', city: 'Paris' },
  { id: '47', given: 'Mary', family: 'Somerville', street: 'Via Toledo 148', city: 'Napoli' },
  { id: '48', given: 'Srinivasa', family: 'Ramanujan', street: '14 Sarangapani Street', city: 'Kumbakonam' },
  { id: '49', given: 'Maryam', family: 'Mirzakhani', street: '450 Jane Stanford Way', city: 'Stanford' },
];
const cards = [
  '4242424242424242',
  '5555555555554444',
  '378282246310005',
  '6011111111111117',
  '3530111333300000',
];
const staff = [
  { name: 'Grace Hopper', iban: 'DE89370400440532013000' },
  { name: 'Alan Turing', iban: 'GB82WEST12345698765432' },
  { name: 'Hedy Lamarr', iban: 'AT611904300234573201' },
];

type Customer = (typeof customers)[number];

function card({ id, given, family }: Customer, index: number): TokenCreate {
  return {
    id: `card-${id}`,
    type: 'card',
    container: `/customers/${id}/`,
    data: {
      number: cards[index % cards.length],
      expiry: `${String(1 + ((index * 5) % 12)).padStart(2, '0')}/${29 + (index % 4)}`,
      holder: `${given} ${family}`,
    },
    mask: { number: '{{ data.number | reveal_last: 4 }}', expiry: '{{ data.expiry }}' },
    metadata: { customer: id },
  };
}

function identity({ id, given, family }: Customer): TokenCreate {
  return {
    id: `identity-${id}`,
    type: 'identity',
    container: '/customers/identity/',
    data: { given, family, mail: `${given}.${family}@example.com`.toLowerCase() },
    mask: {
      given: '{{ data.given }}',
      family: '{{ data.family | first: 1 }}.',
      mail: '{{ data.mail | reveal_first: 1 }}',
    },
    metadata: { customer: id },
  };
}

function address({ id, given, family, street, city }: Customer): TokenCreate {
  return {
    id: `address-${id}`,
    type: 'address',
    container: '/addresses/',
    data: { name: `${given} ${family}`, street, city },
    mask: '{{ data.city }}',
    metadata: { customer: id },
  };
}

function account({ name, iban }: (typeof staff)[number]): TokenCreate {
  const id = `iban-${name.split(' ')[1]?.toLowerCase()}`;
  return {
    id,
    type: 'iban',
    container: '/staff/',
    data: iban,
    mask: '{{ data | reveal_last: 4 }}',
    metadata: { name },
  };
}

export const tokens: readonly TokenCreate[] = [
  ...customers.map(card),
  ...customers.map(identity),
  ...customers.map(address),
  ...staff.map(account),
];

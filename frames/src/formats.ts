/** What each type of field accepts, and how it shows it. Every check takes linear time. */
import type { CardBrand, FieldErrorCode, InputType, TextFormat } from '../../sdk/src/frame-messages.ts';

/** `incomplete`: more characters can make it valid. Other errors: no character can. */
export type Check = 'empty' | 'valid' | FieldErrorCode;

export interface Format {
  readonly autocomplete: string;
  readonly inputmode: string;
  /** Whether the text is read from left to right also in pages from right to left. */
  readonly isNumber: boolean;
  readonly placeholder: string;
  /** Removes what does not belong to the value, such as the spaces between groups of digits. */
  clean(text: string): string;
  /** Adds separators to a cleaned text. They never change the order of its characters. */
  show(clean: string): string;
  check(clean: string, brand: CardBrand): Check;
  /** The data of a valid text. A token with several fields has all of their entries. */
  data(clean: string): string | Readonly<Record<string, string>>;
}

interface Brand {
  readonly name: CardBrand;
  readonly starts: RegExp;
  readonly lengths: readonly number[];
  readonly code?: number;
  readonly groups?: readonly number[];
}

const upTo19 = [16, 17, 18, 19];
const brands: readonly Brand[] = [
  { name: 'visa', starts: /^4/, lengths: [13, 16, 19] },
  { name: 'mastercard', starts: /^(5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/, lengths: [16] },
  { name: 'amex', starts: /^3[47]/, lengths: [15], code: 4, groups: [4, 6, 5] },
  { name: 'discover', starts: /^(6011|64[4-9]|65)/, lengths: upTo19 },
  { name: 'diners', starts: /^(30[0-5]|309|36|3[89])/, lengths: [14, 15, ...upTo19], groups: [4, 6, 9] },
  { name: 'jcb', starts: /^35(2[89]|[3-8])/, lengths: upTo19 },
  { name: 'unionpay', starts: /^62/, lengths: upTo19 },
  { name: 'maestro', starts: /^(50|5[6-8]|6)/, lengths: [12, 13, 14, 15, ...upTo19] },
];
const unknownBrand: Brand = { name: 'unknown', starts: /^/, lengths: [12, 13, 14, 15, ...upTo19] };

function brandOf(digits: string): Brand {
  return brands.find(({ starts }) => starts.test(digits)) ?? unknownBrand;
}

export function brandName(digits: string): CardBrand {
  return brandOf(digits).name;
}

export function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let at = 0; at < digits.length; at++) {
    const digit = Number(digits[digits.length - 1 - at]);
    const doubled = at % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

function grouped(text: string, groups: readonly number[]): string {
  const parts: string[] = [];
  let from = 0;
  for (let index = 0; from < text.length; index++) {
    const size = groups[Math.min(index, groups.length - 1)] as number;
    parts.push(text.slice(from, from + size));
    from += size;
  }
  return parts.join(' ');
}

function digitsOf(text: string, max: number): string {
  // Also accepts digits of other scripts, which some keyboards enter.
  const ascii = text.normalize('NFKC').replace(/\p{Nd}/gu, asciiDigit);
  return ascii.replace(/\D/g, '').slice(0, max);
}

/** Decimal digits are in blocks of ten in Unicode, each from a code point that is a multiple of ten plus a constant. */
function asciiDigit(digit: string): string {
  if (digit >= '0' && digit <= '9') return digit;
  let zero = digit.codePointAt(0) as number;
  let value = 0;
  while (value < 9 && /\p{Nd}/u.test(String.fromCodePoint(zero - 1))) {
    zero -= 1;
    value += 1;
  }
  return String(value);
}

const numeric = { inputmode: 'numeric', isNumber: true };

const cardNumber: Format = {
  ...numeric,
  autocomplete: 'cc-number',
  placeholder: '1234 1234 1234 1234',
  clean: (text) => {
    const digits = digitsOf(text, 19);
    return digits.slice(0, Math.max(...brandOf(digits).lengths));
  },
  show: (digits) => grouped(digits, brandOf(digits).groups ?? [4]),
  check: (digits) => {
    if (digits === '') return 'empty';
    const { lengths } = brandOf(digits);
    if (lengths.includes(digits.length) && passesLuhn(digits)) return 'valid';
    // Longer numbers are rare: a wrong checksum of one with the usual length is more likely a typing error.
    const isUsual = digits.length >= 16 && lengths.includes(digits.length);
    return digits.length < Math.max(...lengths) && !isUsual ? 'incomplete' : 'number_invalid';
  },
  data: (number) => ({ number }),
};

const expiry: Format = {
  ...numeric,
  autocomplete: 'cc-exp',
  placeholder: 'MM/YY',
  clean: (text) => {
    const [month = '', year = ''] = text.split('/');
    const given = year === '' ? digitsOf(text, 6) : digitsOf(month, 2).padStart(2, '0') + digitsOf(year, 4);
    const digits = /^[2-9]/.test(given) ? `0${given}` : given;
    // A year with four digits, also while it is typed.
    const long = /^(\d\d)20(\d\d?)$/.exec(digits);
    if (long) return long[2]?.length === 2 ? `${long[1]}${long[2]}` : digits;
    return digits.slice(0, 4);
  },
  show: (digits) => (digits.length < 2 ? digits : `${digits.slice(0, 2)}/${digits.slice(2)}`),
  check: (digits) => {
    if (digits === '') return 'empty';
    const [month, year] = [Number(digits.slice(0, 2)), 2000 + Number(digits.slice(2))];
    if (digits.length >= 2 && (month < 1 || month > 12)) return 'date_invalid';
    // The year 20 is the beginning of one with four digits.
    if (digits.length !== 4 || year === 2020) return 'incomplete';
    const now = new Date();
    const months = (year - now.getFullYear()) * 12 + month - (now.getMonth() + 1);
    if (months < 0) return 'expired';
    return months <= 12 * 20 ? 'valid' : 'date_invalid';
  },
  data: (digits) => ({ exp_month: digits.slice(0, 2), exp_year: `20${digits.slice(2)}` }),
};

const verificationCode: Format = {
  ...numeric,
  autocomplete: 'cc-csc',
  placeholder: '123',
  clean: (text) => digitsOf(text, 4),
  show: (digits) => digits,
  check: (digits, brand) => {
    if (digits === '') return 'empty';
    const lengths = brand === 'unknown' ? [3, 4] : [brands.find(({ name }) => name === brand)?.code ?? 3];
    if (lengths.includes(digits.length)) return 'valid';
    return digits.length < Math.max(...lengths) ? 'incomplete' : 'value_invalid';
  },
  data: (digits) => digits,
};

/** The length of an IBAN by country, from the registry of SWIFT. */
const ibanLengths =
  'AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27GB22GE22GI23GL18GR27GT28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30';

const iban: Format = {
  autocomplete: 'off',
  inputmode: 'text',
  isNumber: true,
  placeholder: 'DE00 0000 0000 0000 0000 00',
  clean: (text) =>
    text
      .normalize('NFKC')
      .toUpperCase()
      .replace(/[^A-Z0-9]/g, '')
      .slice(0, 34),
  show: (text) => grouped(text, [4]),
  check: (text) => {
    if (text === '') return 'empty';
    if (!/^[A-Z]{1,2}$|^[A-Z]{2}\d{1,2}$|^[A-Z]{2}\d{2}[A-Z0-9]*$/.test(text)) return 'iban_invalid';
    if (text.length < 2) return 'incomplete';
    const at = ibanLengths.search(new RegExp(`(?:^|\\d)${text.slice(0, 2)}\\d\\d`));
    if (at < 0) return 'iban_invalid';
    const length = Number(/\d\d/.exec(ibanLengths.slice(at === 0 ? 0 : at + 1))?.[0]);
    if (text.length !== length) return text.length < length ? 'incomplete' : 'iban_invalid';
    return remainder97(text.slice(4) + text.slice(0, 4)) === 1 ? 'valid' : 'iban_invalid';
  },
  data: (text) => text,
};

/** The remainder of the number that ISO 7064 makes of the text: letters count from 10. */
function remainder97(text: string): number {
  let rest = 0;
  for (const character of text) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest;
}

const maxText = 200;
const textBase = {
  autocomplete: 'off',
  inputmode: 'text',
  isNumber: false,
  placeholder: '',
  show: (text: string) => text,
  data: (text: string) => text,
};
const filled = (text: string): Check => (text === '' ? 'empty' : 'valid');

const textFormats: Readonly<Record<TextFormat, Format>> = {
  any: {
    ...textBase,
    clean: (text) => [...text.replace(/\p{Cc}/gu, '')].slice(0, maxText).join(''),
    check: (text) => (text.trim() === '' && text !== '' ? 'incomplete' : filled(text)),
  },
  digits: { ...textBase, ...numeric, clean: (text) => digitsOf(text, maxText), check: filled },
  alphanumeric: {
    ...textBase,
    clean: (text) => text.replace(/[^A-Za-z0-9]/g, '').slice(0, maxText),
    check: filled,
  },
  'us-ssn': {
    ...textBase,
    ...numeric,
    placeholder: '123-45-6789',
    clean: (text) => digitsOf(text, 9),
    show: (digits) => [digits.slice(0, 3), digits.slice(3, 5), digits.slice(5)].filter(Boolean).join('-'),
    check: (digits) => {
      if (digits.length < 9) return digits === '' ? 'empty' : 'incomplete';
      return /^(?!000|666|9)\d{3}(?!00)\d\d(?!0000)\d{4}$/.test(digits) ? 'valid' : 'value_invalid';
    },
  },
};

export function formatOf(type: InputType, format: TextFormat = 'any'): Format {
  if (type === 'text') return textFormats[format] ?? textFormats.any;
  return { 'card-number': cardNumber, expiry, 'verification-code': verificationCode, iban }[type];
}

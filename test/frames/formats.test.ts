/** Formats and checks of the fields in frames. */
import { describe, expect, test } from 'bun:test';
import { brandName, formatOf, passesLuhn } from '../../frames/src/formats.ts';
import type { InputType, TextFormat } from '../../sdk/src/frame-messages.ts';

function checked(type: InputType, text: string, format?: TextFormat, brand = 'unknown' as const) {
  const field = formatOf(type, format);
  const clean = field.clean(text);
  return [field.show(clean), field.check(clean, brand)];
}

describe('card numbers:', () => {
  test.each([
    ['4242 4242 4242 4242', '4242 4242 4242 4242', 'valid', 'visa'],
    ['4222222222222', '4222 2222 2222 2', 'valid', 'visa'],
    ['378282246310005', '3782 822463 10005', 'valid', 'amex'],
    ['5555-5555-5555-4444', '5555 5555 5555 4444', 'valid', 'mastercard'],
    ['2223003122003222', '2223 0031 2200 3222', 'valid', 'mastercard'],
    ['6011111111111117', '6011 1111 1111 1117', 'valid', 'discover'],
    ['3566002020360505', '3566 0020 2036 0505', 'valid', 'jcb'],
    ['6200000000000005', '6200 0000 0000 0005', 'valid', 'unionpay'],
    ['٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢', '4242 4242 4242 4242', 'valid', 'visa'],
    ['４２４２ 4242 4242 4242', '4242 4242 4242 4242', 'valid', 'visa'],
    ['4242 4242 4242 4241', '4242 4242 4242 4241', 'number_invalid', 'visa'],
    ['4242 4242', '4242 4242', 'incomplete', 'visa'],
    ['42x4', '424', 'incomplete', 'visa'],
    ['1', '1', 'incomplete', 'unknown'],
    ['', '', 'empty', 'unknown'],
  ] as const)('%s', (text, shown, check, brand) => {
    expect(checked('card-number', text)).toEqual([shown, check]);
    expect(brandName(formatOf('card-number').clean(text))).toBe(brand);
  });

  test('every single wrong digit is noticed', () => {
    const number = '4242424242424242';
    for (let at = 0; at < number.length; at++)
      for (let digit = 0; digit < 10; digit++) {
        const changed = number.slice(0, at) + digit + number.slice(at + 1);
        expect([changed, passesLuhn(changed)]).toEqual([changed, changed === number]);
      }
  });
});

describe('expiry:', () => {
  const now = new Date();
  const [month, year] = [String(now.getMonth() + 1).padStart(2, '0'), now.getFullYear() % 100];
  test.each([
    [`${month}${year}`, `${month}/${year}`, 'valid'],
    [`12/20${year + 1}`, `12/${year + 1}`, 'valid'],
    [`9/${year + 1}`, `09/${year + 1}`, 'valid'],
    ['5', '05/', 'incomplete'],
    ['1', '1', 'incomplete'],
    ['13', '13/', 'date_invalid'],
    ['0121', '01/21', 'expired'],
    ['12/20', '12/20', 'incomplete'],
    ['12/203', '12/203', 'incomplete'],
    [`1/20${year + 1}`, `01/${year + 1}`, 'valid'],
    [`420${year + 1}`, `04/${year + 1}`, 'valid'],
    [`01${year + 21}`, `01/${year + 21}`, 'date_invalid'],
    ['', '', 'empty'],
  ])('%s', (text, shown, check) => {
    expect(checked('expiry', text)).toEqual([shown, check]);
  });
});

test.each([
  ['visa', '123', 'valid'],
  ['visa', '1234', 'value_invalid'],
  ['amex', '123', 'incomplete'],
  ['amex', '1234', 'valid'],
  ['unknown', '1234', 'valid'],
  ['unknown', '12', 'incomplete'],
] as const)('a verification code of %s: %s is %s', (brand, text, check) => {
  expect(formatOf('verification-code').check(text, brand)).toBe(check);
});

test.each([
  ['de89 3704 0044 0532 0130 00', 'DE89 3704 0044 0532 0130 00', 'valid'],
  ['GB82WEST12345698765432', 'GB82 WEST 1234 5698 7654 32', 'valid'],
  ['NO9386011117947', 'NO93 8601 1117 947', 'valid'],
  ['AD1200012030200359100100', 'AD12 0001 2030 2003 5910 0100', 'valid'],
  ['DE89370400440532013001', 'DE89 3704 0044 0532 0130 01', 'iban_invalid'],
  ['DE8937040044053201300', 'DE89 3704 0044 0532 0130 0', 'incomplete'],
  ['ZZ89', 'ZZ89', 'iban_invalid'],
  ['D', 'D', 'incomplete'],
  ['1', '1', 'iban_invalid'],
])('the IBAN %s', (text, shown, check) => {
  expect(checked('iban', text)).toEqual([shown, check]);
});

test.each([
  ['any', ' a\u0000b ', ' ab ', 'valid'],
  ['any', '  ', '  ', 'incomplete'],
  ['digits', 'a1b2', '12', 'valid'],
  ['alphanumeric', 'a-1', 'a1', 'valid'],
  ['us-ssn', '123456789', '123-45-6789', 'valid'],
  ['us-ssn', '000456789', '000-45-6789', 'value_invalid'],
  ['us-ssn', '12345', '123-45', 'incomplete'],
] as const)('a text of the format %s: %j', (format, text, shown, check) => {
  expect(checked('text', text, format)).toEqual([shown, check]);
});

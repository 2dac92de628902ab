import { describe, expect, test } from 'bun:test';
import { AuthZenProof, DpopResponse, PresentedProof } from '../../src/domain/dpop.ts';

const proof = { jwt: 'header.payload.signature', method: 'GET', url: 'https://shop.example/cards' };

describe.each([
  ['a decision request', PresentedProof],
  ['an AuthZEN request', AuthZenProof],
])('a DPoP proof in %s', (_, schema) => {
  test.each<[string, object, object]>([
    ['with an id of the request', { request: 'r-1' }, { request: 'r-1' }],
    ['without an id of the request', {}, { request: undefined }],
    ['with null as the id', { request: null }, { request: undefined }],
    ['with an id of 200 characters', { request: 'r'.repeat(200) }, { request: 'r'.repeat(200) }],
  ])('is accepted %s', (_, given, parsed) => {
    expect(schema.parse({ ...proof, ...given })).toEqual({ ...proof, ...parsed } as never);
  });

  test.each<[string, string, object]>([
    ['without a JWT', 'jwt', { jwt: undefined }],
    ['without a method', 'method', { method: undefined }],
    ['without a URL', 'url', { url: undefined }],
    ['with an id that is not a string', 'request', { request: 1 }],
    ['with an id of 201 characters', 'request', { request: 'r'.repeat(201) }],
  ])('is rejected %s', (_, field, given) => {
    const { error } = schema.safeParse({ ...proof, ...given });
    expect(error?.issues.map(({ path }) => path)).toEqual([[field]]);
  });
});

test('an unknown field of a proof is rejected in a decision request and ignored in an AuthZEN request', () => {
  const given = { ...proof, htm: 'GET' };
  expect(PresentedProof.safeParse(given).success).toBe(false);
  expect(AuthZenProof.parse(given)).toEqual({ ...proof, request: undefined });
});

describe('the headers for the response to the client', () => {
  test.each([
    ['a nonce', { nonce: 'n' }],
    ['a nonce and the error of an invalid proof', { nonce: 'n', error: 'invalid_dpop_proof' }],
    ['a nonce and the error of a missing nonce', { nonce: 'n', error: 'use_dpop_nonce' }],
  ])('can be %s', (_, headers) => {
    expect(DpopResponse.parse(headers) as object).toStrictEqual(headers);
  });

  test.each<[string, object]>([
    ['a missing nonce', { error: 'use_dpop_nonce' }],
    ['an error that DPoP does not define', { nonce: 'n', error: 'unauthenticated' }],
    ['an undefined error', { nonce: 'n', error: undefined }],
  ])('cannot have %s', (_, headers) => {
    expect(DpopResponse.safeParse(headers).success).toBe(false);
  });
});

import { describe, expect, test } from 'bun:test';
import { Denial } from '../../src/domain/denial.ts';
import { Failure, problem } from '../../src/domain/error.ts';

const decision = { reason: 'rule 1 does not match' };

describe('a denial', () => {
  test('responds with its code and detail, and contains the decision for the audit log', () => {
    const denial = new Denial('permission_missing', 'You cannot use `token:read` on this token.', decision);
    expect(denial).toBeInstanceOf(Failure);
    expect(denial).toMatchObject({
      code: 'permission_missing',
      detail: 'You cannot use `token:read` on this token.',
      decision,
    });
  });

  test('without a detail has the default detail of its code', () => {
    expect(new Denial('quarantined', undefined, decision).detail).toBe(problem('quarantined').detail);
  });

  const nothing = { resource: undefined, isStored: false, createdBy: undefined };
  const [id, container] = ['card-1', '/pci/'];

  test.each<[string, ConstructorParameters<typeof Denial>[3], object]>([
    ['no resource', undefined, nothing],
    [
      'a stored token and its creator',
      { id, container: 'PCI', isStored: true, createdBy: 'a' },
      { resource: { ids: [id], container }, isStored: true, createdBy: 'a' },
    ],
    [
      'a stored token without a known creator',
      { id, container, isStored: true },
      { resource: { ids: [id], container }, isStored: true, createdBy: undefined },
    ],
    [
      'a resource that the caller named',
      { id, container, isStored: false },
      { ...nothing, resource: { ids: [id], container } },
    ],
    ['only a container', { container, isStored: false }, { ...nothing, resource: { container } }],
    ['only an id', { id, isStored: false }, { ...nothing, resource: { ids: [id] } }],
  ])('records %s', (_, denied, recorded) => {
    const { resource, isStored, createdBy } = new Denial('not_found', undefined, decision, denied);
    expect({ resource, isStored, createdBy }).toStrictEqual(recorded as never);
  });
});

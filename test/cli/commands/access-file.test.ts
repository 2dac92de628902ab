import { describe, expect, test } from 'bun:test';
import { setUpApply } from '../../support/apply.ts';

const fixture = setUpApply();
const { apply, applications } = fixture;

describe('an invalid file changes nothing, and every error names its line:', () => {
  const good = `applications:\n  - name: one\n    type: private\n    permissions: [token:read]\n`;
  const cases: [string, string, string[]][] = [
    ['not YAML', 'applications: [', ['access.yaml:1: ']],
    ['a duplicate field', `${good}    type: public\n`, ['access.yaml:5: Map keys must be unique']],
    ['an unknown field', `${good}    colour: red\n`, ['access.yaml:5: "one": colour is not a known field']],
    ['an empty file', '', ['access.yaml:1: the file must be an object']],
    [
      'no applications',
      'apps: []\n',
      ['access.yaml:1: applications is required', 'access.yaml:1: apps is not a known field'],
    ],
    [
      'a duplicate name',
      good + good.replace('applications:\n', ''),
      ['access.yaml:5: "one": name is already used by an application above'],
    ],
    [
      'an invalid rule',
      `${good}    rules:\n      - priority: 0\n        container: /a/\n        transform: show\n        permissions: [token:read]\n`,
      [
        'access.yaml:6: "one": rules.0.priority must be an integer of at least 1',
        'access.yaml:8: "one": rules.0.transform must be one of redact, mask, reveal',
      ],
    ],
    [
      'a permission that the type cannot hold',
      good.replace('private', 'public').replace('token:read', 'application:create'),
      ['access.yaml:4: "one": permissions.0 application:create cannot be granted to a public application'],
    ],
    [
      'a permission that the type cannot hold, after a duplicate',
      good
        .replace('private', 'public')
        .replace(
          ' [token:read]',
          ['token:read', 'token:read', 'session:read', 'session:delete']
            .map((name) => `\n      - ${name}`)
            .join(''),
        ),
      ['access.yaml:8: "one": permissions.3 session:delete cannot be granted to a public application'],
    ],
    [
      'a missing container',
      good
        .replace('permissions', 'rules')
        .replace('[token:read]', '[{priority: 1, transform: mask, permissions: [token:read]}]'),
      ['access.yaml:4: "one": rules.0.container '],
    ],
    [
      'an expiry in the past',
      `${good}    expires_at: 2020-01-01T00:00:00Z\n`,
      ['access.yaml:2: "one" has an `expires_at` in the past'],
    ],
    [
      'an invalid expiry',
      `${good}    expires_at: Never\n`,
      [
        'access.yaml:5: "one": expires_at must be an ISO 8601 date-time, such as 2030-01-31T12:00:00Z, or never',
      ],
    ],
    [
      'a previous name that is used twice',
      `${good}    previous_name: zero\n  - name: zero\n    type: private\n    permissions: [token:read]\n`,
      ['access.yaml:5: "one": previous_name is also a name elsewhere in the file'],
    ],
    ['an undefined alias', 'applications: *none\n', ['access.yaml']],
  ];
  test.each(cases)('%s', async (_, yaml, lines) => {
    const { code, out, err } = await apply(yaml, ['--yes']);
    expect([code, out]).toEqual([2, '']);
    const printed = err.trimEnd().split('\n');
    expect(printed.pop()).toStartWith('sallyport: hint: no change was made');
    expect(printed).toEqual(lines.map((line) => expect.stringContaining(`sallyport: error: ${line}`)));
    expect(Object.keys(await applications())).toHaveLength(1);
  });

  test('a different type, an ambiguous name, or a rename to a name that exists', async () => {
    await fixture.server.application(fixture.key, { name: 'one' });
    const changedType = await apply(good.replace('private', 'public'), ['--yes']);
    expect(changedType.err).toContain(
      'access.yaml:2: "one" is private; the type cannot be changed to public',
    );
    await fixture.server.application(fixture.key, { name: 'zero' });
    const renamed = await apply(`${good}    previous_name: zero\n`, ['--yes']);
    expect(renamed.err).toContain('access.yaml:2: "one" exists, and so does its `previous_name` "zero"');
    await fixture.server.application(fixture.key, { name: 'one' });
    expect((await apply(good, ['--yes'])).err).toContain(
      'access.yaml:2: "one" is ambiguous: 2 applications are named "one"',
    );
  });

  test('a small file whose aliases expand to a huge one', async () => {
    const levels = ['a', 'b', 'c', 'd', 'e', 'f'].map((name, index, all) =>
      index === 0
        ? `${name}: &${name} [x,x,x,x,x,x,x,x,x]`
        : `${name}: &${name} [${Array(9).fill(`*${all[index - 1]}`)}]`,
    );
    const { code, err } = await apply(levels.join('\n'), ['--yes']);
    expect([code, err]).toEqual([2, expect.stringContaining('access.yaml: ')]);
  });
});

/** Several files, the labels of files, and which applications `sallyport apply --prune` deletes. */
import { describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { setUpApply } from '../../support/apply.ts';
import { apiShell } from '../../support/shell.ts';

const fixture = setUpApply();
const { applications } = fixture;

const path = (name: string) => join(fixture.folder, name);
const run = (...argv: string[]) => apiShell(fixture.server.url, fixture.key).call(argv);

/** Writes files by name, and applies them with the options. */
function applyFiles(files: Record<string, string>, ...options: string[]) {
  for (const [name, text] of Object.entries(files)) writeFileSync(path(name), text);
  return run('apply', ...Object.keys(files).map(path), '--print-keys', ...options);
}

const fileOf = (labels: string, ...names: string[]) =>
  `${labels}\napplications:${names.length === 0 ? ' []' : ''}\n${names
    .map((name) => `  - { name: ${name}, type: private, permissions: [token:read] }\n`)
    .join('')}`;
const existing = (name: string, labels?: object) =>
  fixture.server.application(fixture.key, { name, ...(labels && { labels }) });
const names = async () =>
  Object.keys(await applications())
    .filter((name) => !name.includes('management'))
    .toSorted();
const shopTeam = 'labels: { team: shop }';

describe('the labels of a file', () => {
  test('are added to every application, and those of the application replace them', async () => {
    const file = `${shopTeam}\napplications:
  - { name: one, type: private, permissions: [token:read] }
  - { name: two, type: private, permissions: [token:read], labels: { team: toys, env: prod } }\n`;
    const { code, out } = await applyFiles({ 'shop.yaml': file }, '--yes');
    expect(code).toBe(0);
    expect(out).toContain('+ private one\n    + permission token:read\n    + label team=shop\n');
    expect(await applications()).toMatchObject({
      one: { labels: { team: 'shop' } },
      two: { labels: { team: 'toys', env: 'prod' } },
    });
    expect((await applyFiles({ 'shop.yaml': file }, '--plan')).code).toBe(0);
  });

  test('limit the list of applications that are not in the file', async () => {
    await existing('mine', { team: 'shop' });
    await existing('theirs', { team: 'toys' });
    const { out } = await applyFiles({ 'shop.yaml': fileOf(shopTeam, 'one') }, '--plan');
    expect(out).toMatch(/^not in the file, unchanged:\n {2}mine .*\nwith other labels, unchanged: 2\n/m);
    expect(out).not.toContain('theirs');
  });

  test.each([
    [
      'labels: { Team: shop }',
      'shop.yaml:1: labels.Team has an invalid name: it must have lower-case letters',
    ],
    ['labels: [team]', 'shop.yaml:1: labels must be'],
    [
      `labels: { ${Array.from({ length: 20 }, (_, at) => `l${at}: x`).join(', ')} }`,
      'shop.yaml:3: "one": labels must have at most 20 entries together with those of the file',
    ],
  ])('are validated: %s', async (labels, message) => {
    const file = fileOf(labels, 'one').replace('] }', '], labels: { own: x } }');
    const { code, err } = await applyFiles({ 'shop.yaml': file }, '--plan');
    expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  });
});

describe('--prune', () => {
  /** Applications of two teams, and one without labels. */
  async function fill() {
    await existing('shop one', { team: 'shop', env: 'prod' });
    await existing('shop two', { team: 'shop' });
    await existing('toys one', { team: 'toys' });
    await existing('free');
  }

  test('is refused without labels, before any change', async () => {
    await fill();
    const { code, out, err } = await applyFiles({ 'shop.yaml': fileOf('', 'shop one') }, '--yes', '--prune');
    expect([code, out, err]).toEqual([
      2,
      '',
      'sallyport: error: --prune needs labels, and shop.yaml has none: it would delete every other application of the tenant\n' +
        'sallyport: hint: set `labels` in the file, or pass --label NAME=VALUE\n',
    ]);
    expect(
      (await applyFiles({ 'shop.yaml': fileOf('labels: {}', 'shop one') }, '--yes', '--prune')).code,
    ).toBe(2);
    expect(await names()).toEqual(['free', 'shop one', 'shop two', 'toys one']);
  });

  test('deletes applications with the labels of the file', async () => {
    await fill();
    const { code, out } = await applyFiles({ 'shop.yaml': fileOf(shopTeam, 'shop one') }, '--yes', '--prune');
    expect(code).toBe(0);
    expect(out).toMatch(/^- private shop two \(.*\)\nwith other labels, unchanged: 3\n/m);
    expect(await names()).toEqual(['free', 'shop one', 'toys one']);
  });

  test('deletes applications with all labels of --label instead', async () => {
    await fill();
    const labels = ['--label', 'team=shop', '--label', 'env=prod'];
    await applyFiles(
      { 'toys.yaml': fileOf('labels: { team: toys }', 'toys one') },
      '--yes',
      '--prune',
      ...labels,
    );
    expect(await names()).toEqual(['free', 'shop two', 'toys one']);
  });

  test('with several files deletes by the labels of each', async () => {
    await fill();
    const files = {
      'shop.yaml': fileOf(shopTeam, 'shop one'),
      'toys.yaml': fileOf('labels: { team: toys }', 'new toys'),
    };
    const { code } = await applyFiles(files, '--yes', '--prune');
    expect([code, await names()]).toEqual([0, ['free', 'new toys', 'shop one']]);
    const missing = await applyFiles({ ...files, 'free.yaml': fileOf('', 'free') }, '--yes', '--prune');
    expect([missing.code, missing.err]).toEqual([
      2,
      expect.stringContaining(`${path('free.yaml')} has none`),
    ]);
  });

  test('never deletes the application whose key is used', async () => {
    const { body } = await fixture.server.call('GET', '/applications/key', { key: fixture.key });
    const own = { name: body.name, permissions: body.permissions, labels: { team: 'shop' } };
    await fixture.server.call('PUT', `/applications/${body.id}`, { key: fixture.key, body: own });
    const { out } = await applyFiles({ 'shop.yaml': fileOf(shopTeam) }, '--yes', '--prune');
    expect(out).toContain(`not in the file, unchanged:\n  ${body.name} (${body.id})\n`);
    expect(Object.keys(await applications())).toEqual([body.name]);
  });

  test('needs --label to be a label, and --label needs --prune', async () => {
    const file = { 'shop.yaml': fileOf(shopTeam, 'shop one') };
    expect((await applyFiles(file, '--prune', '--label', 'shop')).err).toContain(
      '--label must be NAME=VALUE',
    );
    expect((await applyFiles(file, '--plan', '--label', 'team=shop')).err).toContain(
      '--label is only for --prune',
    );
    const empty = await applyFiles(file, '--yes', '--prune', '--label', 'team=');
    expect([empty.code, empty.err]).toEqual([2, expect.stringContaining('--label has no value for team')]);
  });
});

describe('several files', () => {
  test('are applied as one plan', async () => {
    const files = { 'a.yaml': fileOf('', 'one'), 'b.yaml': fileOf(shopTeam, 'two') };
    const { code, out } = await applyFiles(files, '--yes');
    expect(code).toBe(0);
    expect(out).toContain('2 to create, 0 to update, 0 to delete, 0 unchanged');
    expect(await names()).toEqual(['one', 'two']);
  });

  test('may not contain the same name, and errors name their file', async () => {
    const renamed = fileOf('', 'three').replace('name: three', 'name: three, previous_name: one');
    const files = { 'a.yaml': fileOf('', 'one', 'two'), 'b.yaml': fileOf('', 'two'), 'c.yaml': renamed };
    const { code, err } = await applyFiles(files, '--plan');
    expect(code).toBe(2);
    expect(err).toContain(`${path('b.yaml')}:3: "two" is also in ${path('a.yaml')}:4`);
    expect(err).toContain(`${path('c.yaml')}:3: "one" is also in ${path('a.yaml')}:3`);
    const twice = await run('apply', path('a.yaml'), path('a.yaml'), '--yes', '--print-keys');
    expect([twice.code, twice.err]).toEqual([2, expect.stringContaining('"one" is also in')]);
    expect(await names()).toEqual([]);
    const wrong = { 'a.yaml': fileOf('', 'one'), 'b.yaml': fileOf('', 'two').replace('private', 'secret') };
    expect((await applyFiles(wrong, '--plan')).err).toContain(`${path('b.yaml')}:3: "two": type`);
  });
});

test('pull --label writes the applications of a team, with the label in the file', async () => {
  await existing('mine', { team: 'shop', env: 'prod' });
  await existing('mine too', { team: 'shop' });
  await existing('theirs', { team: 'toys' });
  expect((await run('pull', path('shop.yaml'), '--label', 'team=shop')).code).toBe(0);
  const file = parse(readFileSync(path('shop.yaml'), 'utf8'));
  expect(file.labels).toEqual({ team: 'shop' });
  expect(file.applications).toMatchObject([{ name: 'mine', labels: { env: 'prod' } }, { name: 'mine too' }]);
  expect(file.applications[1]).not.toHaveProperty('labels');
  const { code, out } = await run('apply', path('shop.yaml'), '--plan', '--prune');
  expect([code, out]).toEqual([
    0,
    'with other labels, unchanged: 2\nno changes: 2 applications match the file\n',
  ]);
});

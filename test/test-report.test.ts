import { expect, test } from 'bun:test';
import { done } from './support/cleanup.ts';
import { report } from './support/test-report.ts';

const first = 'test/a.test.ts';
const second = 'test/b.test.ts';

async function reported(...lines: string[]) {
  let printed = '';
  const output = new Blob([lines.map((line) => `${line}\n`).join('')]).stream();
  const summary = await report(output, 2, (text) => {
    printed += text;
  });
  return { ...summary, printed };
}

test('the report shows each file when it is done, and how many there are', async () => {
  const { printed, line } = await reported(
    ...[`${first}:`, '(pass) x [1.00ms]', `${second}:`, done + first, '(pass) y [1.00ms]', done + second],
    ...[' 2 pass', ' 0 fail'],
  );
  expect(printed).toBe(`1 of 2: ${first}\n2 of 2: ${second}\n`);
  expect(line).toBe('2 passed, 0 failed, 0 skipped');
});

test('the report shows a failure immediately, and its output at the end', async () => {
  const { printed, failed, line } = await reported(
    ...[
      `${first}:`,
      'error: expected 1',
      '(fail) x [1.00ms]',
      done + first,
      `${second}:`,
      '(pass) y [1.00ms]',
    ],
    ...[done + second, '1 tests failed:', '(fail) x [1.00ms]', ' 1 pass', ' 1 fail'],
  );
  expect(printed).toStartWith(`${first}: (fail) x [1.00ms]\n1 of 2: ${first}\n2 of 2: ${second}\n`);
  expect(printed).toEndWith(`\n${first}:\nerror: expected 1\n(fail) x [1.00ms]\n`);
  expect([failed, line]).toEqual([1, '1 passed, 1 failed, 0 skipped']);
});

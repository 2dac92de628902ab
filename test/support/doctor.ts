import { expect } from 'bun:test';
import type { Cli } from './cli.ts';

export interface Check {
  readonly name: string;
  readonly state: string;
  readonly message: string;
  readonly hint?: string;
}

export async function runDoctor(cli: Cli, ...words: string[]): Promise<{ code: number; checks: Check[] }> {
  const { code, body } = await cli.json('doctor', ...words);
  expect(body.ok).toBe(code === 0);
  return { code, checks: body.checks };
}

export const problemsIn = (checks: Check[]) => checks.filter(({ state }) => state !== 'ok');

/** Lines such as "warn files: data is readable by other users". */
export const formatProblems = (checks: Check[]) =>
  problemsIn(checks).map(({ state, name, message }) => `${state} ${name}: ${message}`);

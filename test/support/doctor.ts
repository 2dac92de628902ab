/** What doctor says, as tests look at it. */
import { expect } from 'bun:test';
import type { Desk } from './cli.ts';

export interface Check {
  readonly name: string;
  readonly state: string;
  readonly says: string;
  readonly todo?: string;
}

export async function examine(desk: Desk, ...words: string[]): Promise<{ code: number; checks: Check[] }> {
  const { code, body } = await desk.json('doctor', ...words);
  expect(body.ok).toBe(code === 0);
  return { code, checks: body.checks };
}

export const bad = (checks: Check[]) => checks.filter(({ state }) => state !== 'ok');
export const shown = (checks: Check[]) =>
  bad(checks).map(({ state, name, says }) => `${state} ${name}: ${says}`);

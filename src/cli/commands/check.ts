/** One thing that was looked at. */
export interface Check {
  readonly name: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly says: string;
  /** What to do, unless it is well. */
  readonly todo?: string;
}

export function ok(name: string, says: string): Check {
  return { name, state: 'ok', says };
}

export function warn(name: string, says: string, todo: string): Check {
  return { name, state: 'warn', says, todo };
}

export function fail(name: string, says: string, todo: string): Check {
  return { name, state: 'fail', says, todo };
}

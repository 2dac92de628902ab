/** The parts of a body that options can name. */
import type { Option } from './command.ts';

export const fileOption: Option = {
  name: 'file',
  takes: 'FILE',
  sentence: 'The body as JSON, - for standard input; options beat what is in it.',
};
export const permissionOption: Option = {
  name: 'permission',
  takes: 'NAME',
  many: true,
  sentence: 'What it may do.',
};

export const originOption: Option = {
  name: 'origin',
  takes: 'ORIGIN',
  many: true,
  sentence: 'For a public Application: an origin whose pages may use its key.',
};

export const expiryOption: Option = {
  name: 'expires-at',
  takes: 'TIME',
  sentence: 'From when on it is gone, such as 2030-01-31T12:00:00Z.',
};

/** Without what was not given. */
export function only<T extends object>(fields: T): Given<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<T>;
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

export function given(values: readonly string[]): string[] | undefined {
  return values.length > 0 ? [...values] : undefined;
}

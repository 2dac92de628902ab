/** Options that set fields of a request body. */
import type { Option } from '../command.ts';

export const fileOption: Option = {
  name: 'file',
  takes: 'FILE',
  sentence: 'Request body as JSON, or - for standard input. Options override its fields.',
};
export const permissionOption: Option = {
  name: 'permission',
  takes: 'NAME',
  many: true,
  sentence: 'Permission to grant; repeatable.',
};

export const originOption: Option = {
  name: 'origin',
  takes: 'ORIGIN',
  many: true,
  sentence: 'Allowed origin of a public application; repeatable.',
};

export const expiryOption: Option = {
  name: 'expires-at',
  takes: 'TIME',
  sentence: 'Expiry, such as 2030-01-31T12:00:00Z.',
};

/** Drops undefined fields. */
export function only<T extends object>(fields: T): Given<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<T>;
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

export function given(values: readonly string[]): string[] | undefined {
  return values.length > 0 ? [...values] : undefined;
}

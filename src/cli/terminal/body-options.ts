/** Options that set fields of a request body. */
import type { Option } from '../command.ts';

export const fileOption: Option = {
  name: 'file',
  value: 'FILE',
  description: 'Request body as JSON, or - for standard input. Options override its fields.',
};
export const permissionOption: Option = {
  name: 'permission',
  value: 'NAME',
  repeatable: true,
  description: 'Permission to grant; repeatable.',
};

export const originOption: Option = {
  name: 'origin',
  value: 'ORIGIN',
  repeatable: true,
  description: 'Allowed origin of a public application; repeatable.',
};

export const expiryOption: Option = {
  name: 'expires-at',
  value: 'TIME',
  description: 'Expiry, such as 2030-01-31T12:00:00Z.',
};

/** Drops undefined fields. */
export function only<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Returns undefined for an empty list, so that `only` drops the field. */
export function nonEmpty(values: readonly string[]): string[] | undefined {
  return values.length > 0 ? [...values] : undefined;
}

/**
 * A table as a value: its columns are named once, and give the types of its rows, the columns of a select, inserts and
 * updates, and how a row is shown. test/db/table.test.ts compares the columns with the schema.
 */

import { timestamp } from '../domain/common-fields.ts';
import type { DbTime } from './db.ts';
import {
  type Bound,
  type Clause,
  type ColumnType,
  raw,
  type Target,
  target,
  type Value,
} from './statement.ts';

/** `V` is the type of its values, `S` that of the field in the view; `never` if the column is not shown. */
export interface Column<V, S = never, O extends boolean = boolean> {
  readonly type: ColumnType;
  /** Whether it may be null. An insert may leave it out. */
  readonly isOptional: O;
  /** Undefined leaves the field out of the view. */
  show?(value: NonNullable<V>): S | undefined;
  /** Only for the type checker. */
  readonly types?: { readonly value: V; readonly shown: S };
}

const column = <V>(type: ColumnType): Column<V, never, false> => ({ type, isOptional: false });

export const uuid = column<string>('uuid');
export const text = column<string>('text');
export const integer = column<number>('integer');
export const bytes = column<Uint8Array>('bytea');
/** In milliseconds. */
export const time = column<DbTime>('bigint');

/** A text column with one of a few values. */
export const oneOf = <V extends string>(): Column<V, never, false> => column<V>('text');

export function optional<V, S>(of: Column<V, S>): Column<V | null, S, true> {
  return { ...of, isOptional: true } as Column<V | null, S, true>;
}

/** A column with a default. */
export function defaulted<V, S>(of: Column<V, S>): Column<V, S, true> {
  return { ...of, isOptional: true };
}

export function shown<V extends Value, O extends boolean>(of: Column<V, never, O>): Column<V, V, O> {
  return { type: of.type, isOptional: of.isOptional, show: (value) => value };
}

/** A text column with JSON. */
export const shownJson = <S>(): Column<string, S, false> => ({
  type: 'text',
  isOptional: false,
  show: (value) => JSON.parse(value) as S,
});

export const shownTime: Column<DbTime, string, false> = {
  type: 'bigint',
  isOptional: false,
  show: (value) => timestamp(Number(value)),
};

/** Shown only if it is set. */
export const shownFlag: Column<number, true, true> = {
  type: 'integer',
  isOptional: true,
  show: (value) => value !== 0 || undefined,
};

type Columns = Readonly<Record<string, Column<unknown, unknown>>>;

type Types<C> = C extends { readonly types?: infer T } ? NonNullable<T> : never;
type ValueOf<C> = Types<C> extends { readonly value: infer V } ? V : never;
type ShownOf<C> = Types<C> extends { readonly shown: infer S } ? S : never;
type IsShown<C> = [ShownOf<C>] extends [never] ? false : true;
type IsOptional<C> = C extends { readonly isOptional: true } ? true : false;

export type RowOf<C extends Columns> = { readonly [K in keyof C]: ValueOf<C[K]> };
export type NewRow<C extends Columns> = {
  readonly [K in keyof C as IsOptional<C[K]> extends false ? K : never]: ValueOf<C[K]>;
} & { readonly [K in keyof C as IsOptional<C[K]> extends true ? K : never]?: ValueOf<C[K]> | undefined };
type ShownColumns<C extends Columns> = {
  [K in keyof C as IsShown<C[K]> extends true ? K : never]: C[K];
};
export type ViewOf<C extends Columns> = {
  [K in keyof C as [IsShown<C[K]>, IsOptional<C[K]>] extends [true, false] ? K : never]: ShownOf<C[K]>;
} & { [K in keyof C as [IsShown<C[K]>, IsOptional<C[K]>] extends [true, true] ? K : never]?: ShownOf<C[K]> };

export interface Table<C extends Columns> {
  readonly name: string;
  readonly columns: C;
  /** The names of the columns that are shown. */
  readonly shown: readonly (keyof C & string)[];
  /** The columns of a select. */
  select(alias: string, names?: readonly (keyof C & string)[]): Clause;
  /** `end` is the end of the statement. Undefined values are stored as null. */
  insert(row: NewRow<C>, end?: string): Bound;
  /** Where rows with these columns are inserted: see `Queries.insert`. */
  target<K extends keyof C & string>(names: readonly K[], onConflict?: string): Target<Record<K, Value>>;
  /** Updates the rows that are equal to `key`. Undefined values are stored as null. */
  update(key: Partial<RowOf<C>>, changes: Partial<NewRow<C>>): Bound;
  /** The fields that are shown, and not null. */
  readonly view: (row: RowOf<ShownColumns<C>>) => ViewOf<C>;
}

export function table<const C extends Columns>(name: string, columns: C): Table<C> {
  const names = Object.keys(columns);
  const views = Object.entries(columns).flatMap(([name, { show }]) => (show ? [{ name, show }] : []));
  /** By the columns that a statement sets. */
  const texts = new Map<string, string>();
  const textOf = (shape: string, make: () => string): string => {
    const made = texts.get(shape) ?? make();
    texts.set(shape, made);
    return made;
  };
  const valuesOf = (row: object) => Object.values(row).map((value: Value | undefined) => value ?? null);
  return {
    name,
    columns,
    shown: views.map(({ name }) => name),
    select: (alias, selected = names) => raw(selected.map((column) => `${alias}.${column}`).join(', ')),
    insert: (row, end = '') => {
      const set = Object.keys(row);
      const make = () => `insert into ${name} (${set}) values (${set.map((_, at) => `$${at + 1}`)}) ${end}`;
      return [textOf(`insert ${set} ${end}`, make), valuesOf(row)];
    },
    target: (set, onConflict) => {
      const types = set.map((column) => [column, (columns[column] as Column<unknown>).type]);
      return target(name, Object.fromEntries(types), onConflict);
    },
    update: (key, changes) => {
      const [where, set] = [Object.keys(key), Object.keys(changes)];
      const equal = (columns: string[], from: number) => columns.map((one, at) => `${one} = $${from + at}`);
      const make = () =>
        `update ${name} set ${equal(set, where.length + 1)} where ${equal(where, 1).join(' and ')}`;
      return [textOf(`update ${set} ${where}`, make), [...valuesOf(key), ...valuesOf(changes)]];
    },
    view: (row) => {
      const view: Record<string, unknown> = {};
      for (const { name, show } of views) {
        const value = (row as Readonly<Record<string, unknown>>)[name];
        const field = value === null ? undefined : show(value as never);
        if (field !== undefined) view[name] = field;
      }
      return view as ViewOf<C>;
    },
  };
}

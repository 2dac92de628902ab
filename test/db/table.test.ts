/** Tables as values agree with the schema, and their statements do what they say. */
import { describe, expect, test } from 'bun:test';
import { all, clause, list, none, Param, raw, sql, tuple } from '../../src/db/statement.ts';
import {
  integer,
  optional,
  shown,
  shownFlag,
  shownJson,
  shownTime,
  table,
  text,
} from '../../src/db/table.ts';
import { applicationTable } from '../../src/store/applications.ts';
import { destinationTable } from '../../src/store/destinations.ts';
import { keyTable } from '../../src/store/key-rows.ts';
import { sessionTable } from '../../src/store/sessions.ts';
import { tokenTable } from '../../src/store/token-row.ts';
import { contentsTable } from '../../src/store/tokens.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const tables = [applicationTable, keyTable, sessionTable, destinationTable, tokenTable, contentsTable];

interface Stored {
  readonly name: string;
  readonly type: string;
  readonly nullable: string | number;
}

describe.each(databases)('tables on %s', async (name, database) => {
  const on = await openTestStore(database);

  test.each(tables.map((one) => [one.name, one] as const))(
    '%s has the columns of the schema',
    async (_, one) => {
      const stored = await on.runSql<Stored>(
        name === 'SQLite'
          ? `select name, type, "notnull" = 0 or dflt_value is not null as nullable from pragma_table_info('${one.name}')`
          : `select column_name as name, data_type as type,
             (is_nullable = 'YES' or column_default is not null)::int as nullable
           from information_schema.columns where table_schema = current_schema() and table_name = '${one.name}'`,
      );
      const columns = Object.entries(one.columns).map(([name, { type, isOptional }]) => [
        name,
        type,
        isOptional,
      ]);
      const ofSchema = stored.map(({ name, type, nullable }) => [name, type, Number(nullable) === 1]);
      // SQLite has other types.
      const compared = ([column, type, isOptional]: (typeof columns)[number]) =>
        name === 'SQLite' ? [column, isOptional] : [column, type, isOptional];
      expect(columns.map(compared).sort()).toEqual(
        ofSchema.map((each) => compared(each as (typeof columns)[number])).sort(),
      );
    },
  );
});

describe('a table', () => {
  const things = table('things', {
    id: shown(text),
    hidden: text,
    size: optional(shown(integer)),
    flag: shownFlag,
    list: optional(shownJson<string[]>()),
    made: shownTime,
  });

  test('inserts the columns of a row; undefined is null', () => {
    expect(
      things.insert({ id: 'a', hidden: 'b', size: undefined, made: 7 }, 'on conflict do nothing'),
    ).toEqual([
      'insert into things (id,hidden,size,made) values ($1,$2,$3,$4) on conflict do nothing',
      ['a', 'b', null, 7],
    ]);
  });

  test('updates the columns that change, of the row with the key', () => {
    expect(things.update({ id: 'a', hidden: 'b' }, { size: 3, list: null })).toEqual([
      'update things set size = $3,list = $4 where id = $1 and hidden = $2',
      ['a', 'b', 3, null],
    ]);
    // The same columns in another order.
    expect(things.update({ hidden: 'b', id: 'a' }, { list: null, size: 3 })).toEqual([
      'update things set list = $3,size = $4 where hidden = $1 and id = $2',
      ['b', 'a', null, 3],
    ]);
  });

  test('shows only the columns that are declared as shown, and leaves out null', () => {
    const row = { id: 'a', hidden: 'secret', size: null, flag: 0, list: '["x"]', made: '86400000', more: 1 };
    expect(things.view(row)).toEqual({ id: 'a', list: ['x'], made: '1970-01-02T00:00:00.000Z' });
    expect(things.view({ ...row, size: 0, flag: 1, list: null })).toEqual({
      id: 'a',
      size: 0,
      flag: true,
      made: '1970-01-02T00:00:00.000Z',
    });
    expect(things.shown).toEqual(['id', 'size', 'flag', 'list', 'made']);
  });
});

describe('a statement', () => {
  test('has its values as parameters, in order, and undefined as null', () => {
    const move = (id: string, to?: string) => sql`update things set place = ${to} where id = ${id}`;
    expect(move('a', 'b')).toEqual(['update things set place = $1 where id = $2', ['b', 'a']]);
    expect(move('b')).toEqual(['update things set place = $1 where id = $2', [null, 'b']]);
    expect(sql`select 1`).toEqual(['select 1', []]);
  });

  test('has a value that stands in it several times once', () => {
    const [to, same] = [new Param('b'), 'b'];
    expect(sql`${to} ${same} ${clause`(${to}, ${1})`} ${to} ${same}`).toEqual([
      '$1 $2 ($1, $3) $1 $4',
      ['b', 'b', 1, 'b'],
    ]);
  });

  test('has clauses in clauses, and none where a condition does not hold', () => {
    const inner = clause`b = ${'c'} ${false}`;
    expect(sql`select ${raw('a')} where ${all(inner, undefined, false, '', 'd = 1')}${none}`).toEqual([
      'select a where b = $1  and d = 1',
      ['c'],
    ]);
  });

  test('has text of a caller only as a parameter', () => {
    const text = `' or $1 = '1'; -- :now`;
    expect(sql`select ${text} from ${raw('things')} where a in ${list([text])}`).toEqual([
      'select $1 from things where a in ($2)',
      [text, text],
    ]);
  });

  test('has a list of 1, 2, 4, 8 … values, and of none', () => {
    const text = (values: number[]) => sql`${list(values)}`;
    expect(text([1, 2, 3])).toEqual(['($1, $2, $3, $4)', [1, 2, 3, 3]]);
    expect(text([1, 2, 3, 4, 5])[1]).toEqual([1, 2, 3, 4, 5, 5, 5, 5]);
    expect(text([])).toEqual(['(null)', []]);
    expect(sql`${tuple([1, 2, 3])}`).toEqual(['($1, $2, $3)', [1, 2, 3]]);
  });
});

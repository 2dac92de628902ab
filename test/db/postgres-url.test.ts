import { describe, expect, test } from 'bun:test';
import { parsePostgresUrl } from '../../src/db/postgres/postgres-url.ts';

const parse = (url: string, env = {}) => parsePostgresUrl(url, env);

describe('a PostgreSQL URL', () => {
  test('contains user, password, hosts, ports and database, with escapes', () => {
    expect(parse('postgres://m%40e:p%25%2Fw:x@db1:5433,[::1],%2Frun%2Fpg/a%20b')).toMatchObject({
      user: 'm@e',
      password: 'p%/w:x',
      hosts: [
        { host: 'db1', port: 5433 },
        { host: '::1', port: 5432 },
        { host: '/run/pg', port: 5432 },
      ],
      database: 'a b',
      sslmode: 'prefer',
    });
  });

  test('may omit the parts that the environment has', () => {
    const env = {
      PGUSER: 'me',
      PGPASSWORD: 'secret',
      PGHOST: 'db',
      PGPORT: '6000',
      PGPASSFILE: '/passwords',
    };
    expect(parse('postgres://', env)).toMatchObject({
      user: 'me',
      password: 'secret',
      hosts: [{ host: 'db', port: 6000 }],
      database: 'me',
      passfile: '/passwords',
    });
    expect(parse('postgresql:///x', {})).toMatchObject({
      user: 'postgres',
      password: undefined,
      hosts: [{ host: 'localhost', port: 5432 }],
    });
  });

  test.each([
    ['sslmode=on', 'must have as sslmode one of disable, prefer, require, verify-ca, verify-full, not "on"'],
    ['target_session_attrs=standby', 'one of any, primary, read-write, not "standby"'],
    ['sslmod=require', 'must have only the parameters'],
    ['schema=a;b', 'must have a schema of letters, digits and _, not "a;b"'],
    ['sslrootcert=ca.pem', 'sslmode=verify-full or sslmode=verify-ca if it has sslrootcert'],
    ['sslmode=require&sslcert=a', 'both sslcert and sslkey'],
    ['sslcert=a&sslkey=b', 'sslmode=require or stricter'],
    ['sslmode=%zz', 'two hexadecimal digits after every %'],
  ])('is rejected with a sentence: %s', (query, message) => {
    expect(() => parse(`postgres://db/x?${query}`)).toThrow(message);
  });

  test.each([
    'postgres://me:hunter2%@db/x',
    'postgres://me:1/hunter2@db/x',
    'postgres://me:1?hunter2=@db/x',
    'postgres://me:1#hunter2@db/x',
    'postgres://me:hunter2@db:port/x',
    'postgres://me:hunter2@db:0/x',
    'postgres://me:hunter2@db:65536/x',
  ])('that is invalid is not repeated in the message: %s', (url) => {
    expect(() => parse(url)).toThrow(/^must (?!.*hunter2)/);
  });
});

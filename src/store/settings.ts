/** Stores the values of audited settings at the last start. */
import type { Queries } from './engine/db.ts';
import type { Settings } from './maintenance.ts';

export function settings(db: Pick<Queries, 'get' | 'run'>): Settings {
  return {
    replace: async (name, value, at) => {
      const before = await db.get<{ value: string }>('select value from settings where name = $1', [name]);
      // Compares again, because another node may have stored a value since.
      const changed = await db.get<{ name: string }>(
        `insert into settings (name, value) values ($1, $2)
         on conflict (name) do update set value = excluded.value where settings.value <> excluded.value
         returning name`,
        [name, value],
      );
      if (!changed) return undefined;
      await db.run(
        `insert into setting_changes (name, at, value) values ($1, $2, $3)
         on conflict (name, at) do update set value = excluded.value`,
        [name, at, value],
      );
      return { from: before?.value };
    },
  };
}

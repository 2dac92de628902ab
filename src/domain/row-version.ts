/** Versions of stored rows. The time of the last change identifies them, because it increases with every change. */

/** Identifies the current state of a row. Any change results in a value that the row never had before. */
export function versionOf({ modified_at }: { readonly modified_at?: string | undefined }): string {
  return modified_at === undefined ? '0' : Date.parse(modified_at).toString(36);
}

/** Like `versionOf`. A token that was created again after a deletion has another version, too. */
export function tokenVersion({
  seq,
  token,
}: {
  seq: string;
  token: Parameters<typeof versionOf>[0];
}): string {
  return `${seq}-${versionOf(token)}`;
}

/** The `modified_at` of a change at the time `now`: later than that of every change before it. */
export function modificationTime(previous: number | string | null, now: number): number {
  return previous === null ? now : Math.max(now, Number(previous) + 1);
}

/** The result of one check of `doctor`. */
export interface Check {
  readonly name: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly message: string;
  /** What to do. Absent if the state is ok. */
  readonly hint?: string;
}

export function ok(name: string, message: string): Check {
  return { name, state: 'ok', message };
}

export function warn(name: string, message: string, hint: string): Check {
  return { name, state: 'warn', message, hint };
}

export function fail(name: string, message: string, hint: string): Check {
  return { name, state: 'fail', message, hint };
}

/** The hint if the database is missing or empty, and SALLYPORT_REQUIRE_EXISTING is true. */
export const missingHint =
  'mount the volume with the data, or correct SALLYPORT_DATA_DIR or DATABASE_URL; for a new installation, run `sallyport migrate --require-existing false` once';

/** The hint if a background job is late. */
export const startHint = 'start the service, or look for errors in its log';

/** Every row of the torture run, in the order of the table. */
import type { Row } from './row.ts';
import { oneNonce } from './rows/one-nonce.ts';

export const rows: readonly Row[] = [oneNonce];

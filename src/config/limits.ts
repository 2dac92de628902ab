/** The settings of rate limits and quotas. */
import { maxTokenBytes } from '../domain/token.ts';
import { integer, type Setting, zeroOrInteger } from './values.ts';

export const limitSettings = {
  keyRate: {
    variable: 'SALLYPORT_RATE_PER_KEY',
    description: 'Rate limit per key and process, in requests per second. 0 disables it.',
    fallback: '20000',
    parse: (text) => integer(text, 20_000, 0, 1_000_000),
  } satisfies Setting<number>,
  keyBurst: {
    variable: 'SALLYPORT_BURST_PER_KEY',
    description: 'Burst per key: number of requests accepted before the rate limit applies.',
    fallback: '200000',
    parse: (text) => integer(text, 200_000, 1, 100_000_000),
  } satisfies Setting<number>,
  addressRate: {
    variable: 'SALLYPORT_RATE_PER_ADDRESS',
    description:
      'Rate limit per client address (for IPv6, per /64 network) and process, in requests per second. 0 disables it.',
    fallback: '20000',
    parse: (text) => integer(text, 20_000, 0, 1_000_000),
  } satisfies Setting<number>,
  addressBurst: {
    variable: 'SALLYPORT_BURST_PER_ADDRESS',
    description: 'Burst per client address: number of requests accepted before the rate limit applies.',
    fallback: '200000',
    parse: (text) => integer(text, 200_000, 1, 100_000_000),
  } satisfies Setting<number>,
  sessionRate: {
    variable: 'SALLYPORT_SESSIONS_PER_MINUTE',
    description:
      'Rate limit for new sessions per client address, public key and process, in sessions per minute. 0 disables it.',
    fallback: '1200',
    parse: (text) => integer(text, 1200, 0, 1_000_000),
  } satisfies Setting<number>,
  sessionBurst: {
    variable: 'SALLYPORT_SESSIONS_BURST',
    description:
      'Burst per client address and public key: number of new sessions accepted before the rate limit applies.',
    fallback: '1000',
    parse: (text) => integer(text, 1000, 1, 100_000_000),
  } satisfies Setting<number>,
  pendingSessions: {
    variable: 'SALLYPORT_PENDING_SESSIONS_PER_APPLICATION',
    description:
      'Maximum number of pending sessions, and of delegations, per application. 0 disables the limit.',
    fallback: '10000',
    parse: (text) => integer(text, 10_000, 0, 10_000_000),
  } satisfies Setting<number>,
  revocationRate: {
    variable: 'SALLYPORT_REVOCATIONS_PER_MINUTE',
    description:
      'Rate limit for POST /keys/revoke per client address and process, in requests per minute. 0 disables it.',
    fallback: '60',
    parse: (text) => integer(text, 60, 0, 1_000_000),
  } satisfies Setting<number>,
  exchangeRate: {
    variable: 'SALLYPORT_EXCHANGES_PER_MINUTE',
    description:
      'Rate limit for POST /oauth/token per client address and process, in requests per minute. 0 disables it.',
    fallback: '600',
    parse: (text) => integer(text, 600, 0, 1_000_000),
  } satisfies Setting<number>,
  tokenRate: {
    variable: 'SALLYPORT_TOKENS_PER_MINUTE',
    description:
      'Rate limit for token writes per application (with its sessions) and process, in tokens per minute. 0 disables it.',
    fallback: '30000',
    parse: (text) => integer(text, 30_000, 0, 100_000_000),
  } satisfies Setting<number>,
  tokenByteRate: {
    variable: 'SALLYPORT_TOKEN_BYTES_PER_MINUTE',
    description:
      'Rate limit for token request bodies per application (with its sessions) and process, in bytes per minute. At least 1048576 (1 MiB, the largest request), or 0 to disable it.',
    fallback: '134217728',
    parse: (text) => zeroOrInteger(text, 134_217_728, maxTokenBytes, 1_000_000_000_000),
  } satisfies Setting<number>,
  searchRate: {
    variable: 'SALLYPORT_SEARCHES_PER_MINUTE',
    description:
      'Rate limit for searches of tokens per application (with its sessions) and process, in searches per minute. 0 disables it.',
    fallback: '600',
    parse: (text) => integer(text, 600, 0, 100_000_000),
  } satisfies Setting<number>,
  searchMissRate: {
    variable: 'SALLYPORT_SEARCH_MISSES_PER_MINUTE',
    description:
      'Rate limit for searches that find no token, such as guesses, per application (with its sessions) and process, in searches per minute. 0 disables it.',
    fallback: '60',
    parse: (text) => integer(text, 60, 0, 100_000_000),
  } satisfies Setting<number>,
  useRate: {
    variable: 'SALLYPORT_USES_PER_TOKEN',
    description:
      'Rate limit for uses of a token at destinations per process, in uses per minute. The status of a destination can answer guesses. 0 disables it.',
    fallback: '30',
    parse: (text) => integer(text, 30, 0, 100_000_000),
  } satisfies Setting<number>,
  processingRate: {
    variable: 'SALLYPORT_PROCESSING_PER_APPLICATION',
    description:
      'Rate limit for long computations per application (with its sessions) and process, in milliseconds of processing per second. The burst is twenty times as much. 0 disables it.',
    fallback: '500',
    parse: (text) => integer(text, 500, 0, 1000),
  } satisfies Setting<number>,
  tokenBytes: {
    variable: 'SALLYPORT_TOKEN_BYTES_PER_APPLICATION',
    description:
      'Storage quota per application (with its sessions), in bytes. Counts tokens, each rounded up to 4 KiB, and idempotency records. 0 disables it.',
    fallback: '21474836480',
    parse: (text) => integer(text, 21_474_836_480, 0, 999_999_999_999_999),
  } satisfies Setting<number>,
};

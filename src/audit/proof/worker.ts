/** A thread that checks segments, one after the other. Answers in the order of the tasks. */
import { parentPort, workerData } from 'node:worker_threads';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { PackedEntries } from '../log/segment.ts';
import { checkSegment, type SegmentTask } from './check.ts';

const keys: ChainKeys = workerData;
let last = Promise.resolve();

parentPort?.on('message', ({ segment, bytes, before }: SegmentTask) => {
  last = last.then(async () => {
    const entries = new PackedEntries(segment, bytes).readable();
    parentPort?.postMessage(await checkSegment(keys, segment, entries, before));
  });
});

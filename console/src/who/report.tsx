/** Downloads the access report for auditors: CSV files, a page to print, and a signed manifest. */
import { Button } from '@mantine/core';
import { useState } from 'react';
import { accessReport, type ReportFile } from '../../../sdk/src/sallyport.ts';
import { Choice } from '../frame/choice.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatNumber } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { download } from '../frame/table-tools.tsx';
import { isTime, TimeInput } from '../frame/time-input.tsx';

const day = 86_400_000;
const lengths: Readonly<Record<string, number>> = { '30d': 30 * day, '90d': 90 * day, '365d': 365 * day };

export function AccessReport() {
  const { api } = useSignedIn();
  const [{ period, from, to }, set] = useRouteQuery({ period: '90d', from: '', to: '' });
  const [progress, setProgress] = useState<string>();
  const [error, setError] = useState<unknown>();
  const length = lengths[period];
  const create = async () => {
    setError(undefined);
    setProgress('Starting…');
    const now = Date.now();
    const start = length === undefined ? from : new Date(now - length).toISOString();
    const end = length === undefined && isTime(to) ? to : new Date(now).toISOString();
    try {
      const shown = async (title: string, rows: number) => setProgress(`${title}: ${formatNumber(rows)}`);
      const files = await accessReport(api, { from: start, to: end, progress: shown });
      const name = `access-report-${end.slice(0, 10)}`;
      download(`${name}.zip`, zip(files.map((file) => ({ ...file, name: `${name}/${file.name}` }))));
      setProgress(`Downloaded ${name}.zip`);
    } catch (failure) {
      setError(failure);
      setProgress(undefined);
    }
  };
  return (
    <section className="card stack" aria-label="Report">
      <p>
        Who has access, what changed, who read plaintext and for what purpose, unused grants with a risk, and
        keys without an end: as CSV files, a page to print, and a signed manifest. Parts that your key may not
        read are left out, and the page says so.
      </p>
      <div className="tools-line">
        <Choice
          label="Period"
          value={length === undefined ? 'custom' : period}
          options={[
            ['30d', '30 days'],
            ['90d', '90 days'],
            ['365d', '1 year'],
            ['custom', 'Custom'],
          ]}
          choose={(next) => set(next === 'custom' ? { period: next } : { period: next, from: '', to: '' })}
        />
        {length === undefined && (
          <>
            <TimeInput label="From" value={from} change={(time) => set({ from: time })} />
            <TimeInput label="To" value={to} change={(time) => set({ to: time })} />
          </>
        )}
        <Button
          onClick={create}
          disabled={length === undefined && !isTime(from)}
          loading={progress !== undefined && !progress.startsWith('Downloaded')}
          leftSection={<Icon name="download" size={14} />}
        >
          Create report
        </Button>
      </div>
      <p className="fine" role="status">
        {progress}
      </p>
      {error !== undefined && <ErrorNotice error={error} retry={create} />}
      <p className="fine">
        An operator checks the unpacked files, and the audit log, with{' '}
        <code>sallyport audit verify FOLDER</code>. The signature says which key created the report and when,
        and that its files were not changed since.
      </p>
    </section>
  );
}

/** A ZIP archive without compression. */
function zip(files: readonly ReportFile[]): Blob {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (const file of files) {
    const [name, data] = [new TextEncoder().encode(file.name), new TextEncoder().encode(file.text)];
    // Version 2.0, names in UTF-8, not compressed, 1 January 1980.
    const common = [20, 0, 0, 8, 0, 0, 0, 0, 33, 0, ...bytes(crc32(data), 4)];
    common.push(...bytes(data.length, 4), ...bytes(data.length, 4), ...bytes(name.length, 2), 0, 0);
    parts.push(Uint8Array.from([0x50, 0x4b, 3, 4, ...common, ...name]), data);
    const rest = [...Array(10).fill(0), ...bytes(offset, 4)];
    directory.push(Uint8Array.from([0x50, 0x4b, 1, 2, 20, 0, ...common, ...rest, ...name]));
    offset += 30 + name.length + data.length;
  }
  const size = directory.reduce((sum, entry) => sum + entry.length, 0);
  const count = bytes(files.length, 2);
  const end = [
    0x50,
    0x4b,
    5,
    6,
    0,
    0,
    0,
    0,
    ...count,
    ...count,
    ...bytes(size, 4),
    ...bytes(offset, 4),
    0,
    0,
  ];
  return new Blob([...parts, ...directory, Uint8Array.from(end)], { type: 'application/zip' });
}

function bytes(value: number, length: number): number[] {
  return Array.from({ length }, (_, index) => (value >>> (8 * index)) & 255);
}

function crc32(data: Uint8Array): number {
  let crc = -1;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** Copies the rows of a table, for a spreadsheet, or downloads them as CSV. */
import { Button } from '@mantine/core';
import { toCsv } from '../../../sdk/src/sallyport.ts';
import { CopyButton } from './copy-button.tsx';
import { Icon } from './icons.tsx';

export type Rows = readonly (readonly string[])[];

interface Props {
  /** Name of the file, without its ending. */
  readonly name: string;
  readonly head: readonly string[];
  readonly rows: () => Rows;
}

export function TableTools({ name, head, rows }: Props) {
  return (
    <div className="table-tools">
      <CopyButton text={() => toCsv([head, ...rows()], '\t')} label="Copy table" />
      <Button
        variant="default"
        leftSection={<Icon name="download" size={14} />}
        onClick={() => download(`${name}.csv`, new Blob([toCsv([head, ...rows()])], { type: 'text/csv' }))}
      >
        CSV
      </Button>
    </div>
  );
}

export function download(name: string, blob: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

import { Modal } from '@mantine/core';
import { modifierKey } from './keyboard.ts';

const keys: readonly [keys: string, does: string][] = [
  [`${modifierKey} K`, 'Search, or go to a page'],
  ['/', 'Search the list'],
  ['C', 'Create an application'],
  ['J  K', 'Next and previous row'],
  ['Enter', 'Open the row'],
  ['E', 'Edit the open application'],
  ['G O', 'Go to Overview'],
  ['G A', 'Go to Applications'],
  ['G P', 'Go to Access preview'],
  ['G W', 'Go to Who has access?'],
  ['G S', 'Go to Sessions'],
  ['G T', 'Go to Tokens'],
  ['G D', 'Go to Destinations'],
  ['G L', 'Go to Activity'],
  ['?', 'Show keyboard shortcuts'],
];

export function Help({ opened, close }: { opened: boolean; close: () => void }) {
  return (
    <Modal opened={opened} onClose={close} title="Keyboard shortcuts" size="sm">
      <dl className="keys">
        {keys.map(([names, does]) => (
          <div key={names}>
            <dt>
              {names.split(/\s+/).map((name) => (
                <kbd key={name}>{name}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}

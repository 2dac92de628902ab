import { Modal } from '@mantine/core';

const keys: readonly [keys: string, does: string][] = [
  ['⌘ K', 'Jump to an Application or a section'],
  ['/', 'Search in this list'],
  ['C', 'Create an Application'],
  ['J  K', 'Next and previous row'],
  ['Enter', 'Open the row'],
  ['E', 'Edit the Application that is open'],
  ['G A', 'Go to Applications'],
  ['G W', 'Go to “What would it see?”'],
  ['G S', 'Go to Sessions'],
  ['G T', 'Go to Tokens'],
  ['G L', 'Go to Activity'],
  ['?', 'Show this list'],
];

export function Help({ opened, close }: { opened: boolean; close: () => void }) {
  return (
    <Modal
      opened={opened}
      onClose={close}
      title="Keyboard"
      size="sm"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
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

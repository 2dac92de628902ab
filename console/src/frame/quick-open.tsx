/** Opens a page or an application by name. */
import { Modal } from '@mantine/core';
import { type KeyboardEvent, useMemo, useState } from 'react';
import { useApplicationSearch } from '../applications/application-picker.tsx';
import { Icon, type IconName } from './icons.tsx';
import { navigate } from './route.ts';
import { sections } from './sections.ts';

interface Target {
  readonly id: string;
  readonly label: string;
  readonly hint: string;
  readonly icon: IconName;
  readonly to: readonly string[];
}

const maxApplications = 8;

function useTargets(text: string): { targets: readonly Target[]; searching: boolean } {
  const { found, searching } = useApplicationSearch(text);
  return useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const pages = [
      { label: 'Create an application', icon: 'plus' as const, to: ['applications', 'new'] },
      ...sections.map(({ label, icon, path }) => ({ label, icon, to: [path] })),
    ].map((each) => ({ ...each, id: each.to.join('/'), hint: '' }));
    const targets: Target[] = pages.filter(({ label }) => label.toLowerCase().includes(wanted));
    for (const { id, name, type, quarantined_at } of found.slice(0, maxApplications))
      targets.push({
        id,
        label: name,
        hint: quarantined_at ? 'in quarantine' : type,
        icon: 'applications',
        to: ['applications', id],
      });
    return { targets, searching };
  }, [found, searching, text]);
}

function Targets({ close }: { close: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const { targets, searching } = useTargets(text);
  const open = (target: Target | undefined) => {
    if (!target) return;
    close();
    navigate(...target.to);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((at + step + targets.length) % Math.max(1, targets.length));
    }
    if (event.key === 'Enter') open(targets[at]);
  };
  return (
    <div className="quick-open">
      <input
        data-autofocus
        role="combobox"
        aria-label="Go to"
        aria-expanded="true"
        aria-controls="quick-open-targets"
        aria-activedescendant={targets[at] ? `quick-open-${at}` : undefined}
        placeholder="Application or page…"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={pressed}
      />
      <div id="quick-open-targets" role="listbox" aria-label="Results">
        {targets.map((target, index) => (
          <div
            key={target.id}
            id={`quick-open-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onMouseMove={() => setAt(index)}
            onClick={() => open(target)}
          >
            <Icon name={target.icon} />
            <span>{target.label}</span>
            <small>{target.hint}</small>
          </div>
        ))}
        {targets.length === 0 && <p className="quiet">{searching ? 'Searching…' : 'Nothing found.'}</p>}
      </div>
    </div>
  );
}

export function QuickOpen({ opened, close }: { opened: boolean; close: () => void }) {
  return (
    <Modal
      opened={opened}
      onClose={close}
      withCloseButton={false}
      padding={0}
      size={520}
      yOffset="12vh"
      centered={false}
      title="Go to"
      className="quick-open-dialog"
    >
      <Targets close={close} />
    </Modal>
  );
}

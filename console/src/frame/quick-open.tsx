/** Opens a page or an application by name. */
import { Modal } from '@mantine/core';
import { type KeyboardEvent, useMemo, useState } from 'react';
import { useApplications } from '../applications/application-store.ts';
import { Icon, type IconName } from './icons.tsx';
import { navigate } from './route.ts';
import { sections } from './sections.ts';
import { useSignedIn } from './signed-in.ts';

interface Target {
  readonly id: string;
  readonly label: string;
  readonly hint: string;
  readonly icon: IconName;
  readonly to: readonly string[];
}

const maxTargets = 8;

function useTargets(text: string): readonly Target[] {
  const { list } = useApplications(useSignedIn().applications);
  return useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const fixed = [
      { label: 'Create an application', icon: 'plus' as const, to: ['applications', 'new'] },
      ...sections.map(({ label, icon, path }) => ({ label, icon, to: [path] })),
    ].map((each) => ({ ...each, id: each.to.join('/'), hint: '' }));
    const targets: Target[] = fixed.filter(({ label }) => label.toLowerCase().includes(wanted));
    for (const { id, name, type } of list) {
      if (targets.length >= maxTargets + (wanted ? 0 : fixed.length)) break;
      if (!name.toLowerCase().includes(wanted) && !id.startsWith(wanted)) continue;
      targets.push({ id, label: name, hint: type, icon: 'applications', to: ['applications', id] });
    }
    return targets.slice(0, maxTargets + 4);
  }, [list, text]);
}

function Targets({ close }: { close: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const targets = useTargets(text);
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
        {targets.length === 0 && <p className="quiet">No matches.</p>}
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

/** Type a few letters of where to go. */
import { Modal } from '@mantine/core';
import { type KeyboardEvent, useMemo, useState } from 'react';
import { useRoll } from '../applications/roll.ts';
import { Icon, type IconName } from './icons.tsx';
import { go } from './place.ts';
import { sections } from './sections.ts';
import { useSignedIn } from './signed-in.ts';

interface Target {
  readonly id: string;
  readonly label: string;
  readonly hint: string;
  readonly icon: IconName;
  readonly to: readonly string[];
}

const most = 8;

function useTargets(text: string): readonly Target[] {
  const { list } = useRoll(useSignedIn().roll);
  return useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const fixed = [
      { label: 'Create an Application', icon: 'plus' as const, to: ['applications', 'new'] },
      ...sections.map(({ label, icon, at }) => ({ label, icon, to: [at] })),
    ].map((each) => ({ ...each, id: each.to.join('/'), hint: '' }));
    const targets: Target[] = fixed.filter(({ label }) => label.toLowerCase().includes(wanted));
    for (const { id, name, type } of list) {
      if (targets.length >= most + (wanted ? 0 : fixed.length)) break;
      if (!name.toLowerCase().includes(wanted) && !id.startsWith(wanted)) continue;
      targets.push({ id, label: name, hint: type, icon: 'applications', to: ['applications', id] });
    }
    return targets.slice(0, most + 4);
  }, [list, text]);
}

function Targets({ close }: { close: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const targets = useTargets(text);
  const open = (target: Target | undefined) => {
    if (!target) return;
    close();
    go(...target.to);
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
    <div className="jump">
      <input
        data-autofocus
        role="combobox"
        aria-label="Jump to"
        aria-expanded="true"
        aria-controls="jump-targets"
        aria-activedescendant={targets[at] ? `jump-${at}` : undefined}
        placeholder="An Application or a section…"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={pressed}
      />
      <div id="jump-targets" role="listbox" aria-label="Places">
        {targets.map((target, index) => (
          <div
            key={target.id}
            id={`jump-${index}`}
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
        {targets.length === 0 && <p className="quiet">Nothing is called that.</p>}
      </div>
    </div>
  );
}

export function Jump({ opened, close }: { opened: boolean; close: () => void }) {
  return (
    <Modal
      opened={opened}
      onClose={close}
      withCloseButton={false}
      padding={0}
      size={520}
      yOffset="12vh"
      centered={false}
      title="Jump to"
      className="jump-dialog"
    >
      <Targets close={close} />
    </Modal>
  );
}

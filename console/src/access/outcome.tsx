/** How much would be shown: one look for each answer, everywhere. */
import { Icon, type IconName } from '../frame/icons.tsx';

export type Answer = 'reveal' | 'mask' | 'redact' | 'denied';

const looks: Record<Answer, { icon: IconName | undefined; glyph?: string; label: string }> = {
  reveal: { icon: 'preview', label: 'reveal' },
  mask: { icon: undefined, glyph: '••42', label: 'mask' },
  redact: { icon: undefined, glyph: '▇▇▇', label: 'redact' },
  denied: { icon: 'cross', label: 'denied' },
};

export function Outcome({ answer }: { answer: Answer }) {
  const { icon, glyph, label } = looks[answer];
  return (
    <span className={`outcome outcome-${answer}`}>
      {icon ? <Icon name={icon} size={13} /> : <span aria-hidden="true">{glyph}</span>}
      {label}
    </span>
  );
}

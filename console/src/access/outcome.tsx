/** Badges for transforms and denials. */
import { Icon, type IconName } from '../frame/icons.tsx';

export type Outcome = 'reveal' | 'reveal_with_purpose' | 'mask' | 'redact' | 'denied';

/** The transform of a rule, a decision or an access entry. */
export function outcomeIn({
  transform,
  require_purpose,
}: {
  readonly transform: 'reveal' | 'mask' | 'redact';
  readonly require_purpose?: boolean | null;
}): Outcome {
  return transform === 'reveal' && require_purpose ? 'reveal_with_purpose' : transform;
}

const styles: Record<Outcome, { icon: IconName | undefined; glyph?: string; label: string }> = {
  reveal: { icon: 'preview', label: 'reveal' },
  reveal_with_purpose: { icon: 'preview', label: 'reveal with purpose' },
  mask: { icon: undefined, glyph: '••42', label: 'mask' },
  redact: { icon: undefined, glyph: '▇▇▇', label: 'redact' },
  denied: { icon: 'cross', label: 'denied' },
};

export function OutcomeBadge({ answer }: { answer: Outcome }) {
  const { icon, glyph, label } = styles[answer];
  return (
    <span className={`outcome outcome-${answer === 'reveal_with_purpose' ? 'reveal' : answer}`}>
      {icon ? <Icon name={icon} size={13} /> : <span aria-hidden="true">{glyph}</span>}
      {label}
    </span>
  );
}

interface AccessProps {
  readonly access: Outcome;
  /** Whether the permission applies to containers. */
  readonly scoped: boolean;
}

/** A badge for a decision. The transform is shown only for permissions that apply to containers. */
export function AccessBadge({ access, scoped }: AccessProps) {
  if (scoped || access === 'denied') return <OutcomeBadge answer={access} />;
  return <span className="tag tag-good">allowed</span>;
}

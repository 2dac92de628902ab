import type { Application } from '../../../sdk/src/sallyport.ts';
import { Icon, type IconName } from '../frame/icons.tsx';

type Type = Application['type'];

export const typeIcons: Record<Type, IconName> = {
  private: 'server',
  public: 'browser',
  management: 'wrench',
};

export function TypeBadge({ type }: { type: Type }) {
  return (
    <span className={`type type-${type}`}>
      <Icon name={typeIcons[type]} size={13} />
      {type}
    </span>
  );
}

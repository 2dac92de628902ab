import { Button } from '@mantine/core';
import { type RefObject, useState } from 'react';
import { announce } from './announce.ts';
import { type Copied, copiedWords, copy } from './copy.ts';
import { Icon } from './icons.tsx';

interface Props {
  readonly text: string;
  readonly field?: RefObject<HTMLInputElement | HTMLTextAreaElement | null>;
  readonly label?: string;
  readonly done?: (copied: Copied) => void;
}

export function CopyButton({ text, field, label = 'Copy', done }: Props) {
  const [copied, setCopied] = useState<Copied>();
  const press = async () => {
    const outcome = await copy(text, field?.current ?? null);
    setCopied(outcome);
    announce(copiedWords[outcome]);
    done?.(outcome);
  };
  const good = copied === 'checked' || copied === 'copied';
  return (
    <Button
      variant="default"
      onClick={press}
      leftSection={<Icon name={good ? 'check' : 'copy'} size={14} />}
      title={copied && copiedWords[copied]}
    >
      {good ? 'Copied' : copied === 'failed' ? 'Not copied' : label}
    </Button>
  );
}
